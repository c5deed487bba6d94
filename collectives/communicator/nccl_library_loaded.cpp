// NCCL loaded at run time, on a stream of this rank's GPU. Chosen where the build found nccl.h and the CUDA runtime.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <string>
#include <vector>

#include "communicator/communicator.h"
#include "communicator/nccl_library.h"
#include "tensor/error.h"

namespace faibench {
namespace {

// Addresses of the entry points, by the header's own types.
struct EntryPoints {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommSplit) split;
  decltype(&ncclCommGetAsyncError) async_error;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
};

template <class F>
bool find(void* library, const char* name, F& entry) {
  entry = reinterpret_cast<F>(dlsym(library, name));
  return entry != nullptr;
}

// Loaded once and kept: NCCL's threads outlive every group.
const EntryPoints* entry_points(std::string& why) {
  static EntryPoints entries{};
  static const std::string problem = [] {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::string("libnccl.so.2 cannot be loaded: ") + dlerror();
    const bool complete = find(library, "ncclGetUniqueId", entries.get_unique_id) && find(library, "ncclCommInitRankConfig", entries.init_rank) && find(library, "ncclCommSplit", entries.split) &&
                          find(library, "ncclCommGetAsyncError", entries.async_error) && find(library, "ncclCommDestroy", entries.destroy) && find(library, "ncclCommAbort", entries.abort) &&
                          find(library, "ncclGetErrorString", entries.error_string) && find(library, "ncclGetLastError", entries.last_error) && find(library, "ncclGroupStart", entries.group_start) &&
                          find(library, "ncclGroupEnd", entries.group_end) && find(library, "ncclSend", entries.send) && find(library, "ncclRecv", entries.receive) &&
                          find(library, "ncclAllReduce", entries.all_reduce) && find(library, "ncclReduce", entries.reduce) && find(library, "ncclBroadcast", entries.broadcast);
    return complete ? std::string() : std::string("libnccl.so.2 is older than 2.18: it has no ncclCommSplit");
  }();
  why = problem;
  return problem.empty() ? &entries : nullptr;
}

ncclDataType_t to_nccl(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: return ncclFloat16;
    case Dtype::bf16: return ncclBfloat16;
    case Dtype::f32: return ncclFloat32;
    case Dtype::f64: return ncclFloat64;
    case Dtype::i8: return ncclInt8;
    case Dtype::i16: return ncclFloat16;  // moved only: two bytes
    case Dtype::i32: return ncclInt32;
    case Dtype::u32: return ncclUint32;
    case Dtype::i64: return ncclInt64;
    case Dtype::u64: return ncclUint64;
    case Dtype::u8: case Dtype::bool_: break;
  }
  return ncclUint8;
}

ncclRedOp_t to_nccl(Reduce op) { return op == Reduce::sum ? ncclSum : op == Reduce::min ? ncclMin : ncclMax; }

ncclComm_t handle(NcclLibrary::Group* group) { return reinterpret_cast<ncclComm_t>(group); }

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Error(Error::Kind::mpi, std::string(call) + ": " + cudaGetErrorString(status));
}

class LoadedNccl final : public NcclLibrary {
 public:
  LoadedNccl(const EntryPoints& nccl, int device) : nccl_(nccl), device_(device) {
    check(cudaSetDevice(device_), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  LoadedNccl(const LoadedNccl&) = delete;
  LoadedNccl& operator=(const LoadedNccl&) = delete;
  ~LoadedNccl() override { cudaStreamDestroy(stream_); }

  Id unique_id() override {
    ncclUniqueId id;
    check(nccl_.get_unique_id(&id), nullptr, "ncclGetUniqueId");
    Id bytes{};
    static_assert(sizeof id == sizeof bytes);
    std::memcpy(bytes.data(), &id, sizeof id);
    return bytes;
  }

  Group* start(const Id& bytes, int ranks, int rank) override {
    ncclUniqueId id;
    std::memcpy(&id, bytes.data(), sizeof id);
    ncclConfig_t config = non_blocking();
    ncclComm_t group = nullptr;
    check(nccl_.init_rank(&group, ranks, id, rank, &config), nullptr, "ncclCommInitRankConfig");
    return reinterpret_cast<Group*>(group);
  }

  Group* split(Group* group, int color, int key) override {
    ncclConfig_t config = non_blocking();
    ncclComm_t part = nullptr;
    check(nccl_.split(handle(group), color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, &config), handle(group), "ncclCommSplit");
    return reinterpret_cast<Group*>(part);
  }

  State state(Group* group) override {
    ncclResult_t status = ncclSuccess;
    const ncclResult_t asked = nccl_.async_error(handle(group), &status);
    if (asked != ncclSuccess) return {false, text(asked, handle(group), "ncclCommGetAsyncError")};
    if (status == ncclInProgress) return {true, {}};
    if (status != ncclSuccess) return {false, text(status, handle(group), "asynchronous error")};
    if (const cudaError_t cuda = cudaPeekAtLastError(); cuda != cudaSuccess) return {false, cudaGetErrorString(cuda)};
    return {};
  }
  void destroy(Group* group) override { nccl_.destroy(handle(group)); }
  void abort(Group* group) override { nccl_.abort(handle(group)); }

  void begin() override { check(nccl_.group_start(), nullptr, "ncclGroupStart"); }
  void end(Group* group) override { check(nccl_.group_end(), handle(group), "ncclGroupEnd"); }
  void send(Group* group, const void* device, std::int64_t count, Dtype dtype, int to) override {
    check(nccl_.send(device, static_cast<std::size_t>(count), to_nccl(dtype), to, handle(group), stream_), handle(group), "ncclSend");
  }
  void receive(Group* group, void* device, std::int64_t count, Dtype dtype, int from) override {
    check(nccl_.receive(device, static_cast<std::size_t>(count), to_nccl(dtype), from, handle(group), stream_), handle(group), "ncclRecv");
  }
  void all_reduce(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) override {
    check(nccl_.all_reduce(in, out, static_cast<std::size_t>(count), to_nccl(dtype), to_nccl(op), handle(group), stream_), handle(group), "ncclAllReduce");
  }
  void reduce(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op, int root) override {
    check(nccl_.reduce(in, out, static_cast<std::size_t>(count), to_nccl(dtype), to_nccl(op), root, handle(group), stream_), handle(group), "ncclReduce");
  }
  void broadcast(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, int root) override {
    check(nccl_.broadcast(in, out, static_cast<std::size_t>(count), to_nccl(dtype), root, handle(group), stream_), handle(group), "ncclBroadcast");
  }

  void* allocate(std::int64_t bytes) override {
    void* device = nullptr;
    check(cudaMallocAsync(&device, static_cast<std::size_t>(bytes), stream_), "cudaMallocAsync");
    return device;
  }
  void free(void* device) override { cudaFreeAsync(device, stream_); }
  void copy_in(void* device, const void* host, std::int64_t bytes) override {
    check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync to the device");
  }
  void copy_out(void* host, const void* device, std::int64_t bytes) override {
    // Pageable memory would block here and hide a peer's death from the poll: wait for the stream first, then copy.
    pending_.push_back({host, device, bytes});
  }
  bool ready() override {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return false;
    check(status, "cudaStreamQuery");
    if (pending_.empty()) return true;
    for (const Copy& copy : pending_) check(cudaMemcpyAsync(copy.host, copy.device, static_cast<std::size_t>(copy.bytes), cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync to the host");
    pending_.clear();
    return false;
  }

 private:
  struct Copy { void* host; const void* device; std::int64_t bytes; };

  static ncclConfig_t non_blocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }
  std::string text(ncclResult_t status, ncclComm_t group, const char* call) const {
    std::string line = std::string(call) + ": " + nccl_.error_string(status) + " (GPU " + std::to_string(device_) + ")";
    if (const char* last = nccl_.last_error(group); last && *last) line += std::string(": ") + last;
    return line;
  }
  void check(ncclResult_t status, ncclComm_t group, const char* call) const {
    if (status != ncclSuccess && status != ncclInProgress) throw Error(Error::Kind::mpi, text(status, group, call));
  }
  static void check(cudaError_t status, const char* call) { faibench::check(status, call); }

  const EntryPoints& nccl_;
  int device_;
  cudaStream_t stream_ = nullptr;
  std::vector<Copy> pending_;
};

}  // namespace

std::unique_ptr<NcclLibrary> load_nccl(int device, std::string& why) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) {
    cudaGetLastError();
    gpus = 0;
  }
  if (device >= gpus) {
    why = gpus == 0 ? "no GPU" : "GPU " + std::to_string(device) + " of " + std::to_string(gpus) + ": NCCL wants a GPU of its own for every rank of a node";
    return nullptr;
  }
  const EntryPoints* nccl = entry_points(why);
  return nccl ? std::make_unique<LoadedNccl>(*nccl, device) : nullptr;
}

}  // namespace faibench
