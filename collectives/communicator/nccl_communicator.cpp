#include "communicator/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/nccl_gpu.h"
#include "device/gpu_facts.h"
#include "tensor/error.h"

namespace faibench {
namespace {

const std::byte* at(const void* data, std::int64_t element, Dtype dtype) { return static_cast<const std::byte*>(data) + element * size_of(dtype); }
std::byte* at(void* data, std::int64_t element, Dtype dtype) { return static_cast<std::byte*>(data) + element * size_of(dtype); }

void must_reduce(Dtype dtype) {
  if (dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::bool_ || dtype == Dtype::i16)
    throw Error(Error::Kind::internal, "NCCL transport: " + std::string(name_of(dtype)) + " is moved, not reduced: convert to f32 first, or move the elements and add them");
}

/// One group's life. Groups with work under way are aborted, the others destroyed.
class NcclGroup {
 public:
  NcclGroup(std::shared_ptr<NcclLibrary> library, NcclLibrary::Group* group, double patience) : library_(std::move(library)), group_(group), patience_(patience) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (!group_) return;
    if (usable_ && !under_way_) library_->destroy(group_);
    else library_->abort(group_);
  }

  NcclLibrary& library() const { return *library_; }
  const std::shared_ptr<NcclLibrary>& shared_library() const { return library_; }
  NcclLibrary::Group* get() const {
    if (!usable_) throw Error(Error::Kind::mpi, "NCCL: this group was aborted after '" + broken_by_ + "'; make a new one");
    return group_;
  }

  /// Polls until the group has no call pending and, `and_stream`, the stream is empty.
  void wait(const char* call, bool and_stream) {
    const auto start = std::chrono::steady_clock::now();
    for (int turns = 0;; ++turns) {
      const NcclLibrary::State state = library_->state(group_);
      if (!state.error.empty()) fail(std::string(call) + ": " + state.error);
      if (!state.pending && (!and_stream || library_->ready())) break;
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > patience_)
        fail(std::string(call) + ": not done after " + std::to_string(static_cast<int>(patience_)) + " s; a peer is gone or made another call");
      if (turns > 1000) std::this_thread::yield();
    }
    under_way_ = false;
  }
  void began() { under_way_ = true; }

 private:
  [[noreturn]] void fail(const std::string& what) {
    usable_ = false;
    broken_by_ = what;
    library_->abort(std::exchange(group_, nullptr));
    throw Error(Error::Kind::mpi, "NCCL: " + what);
  }

  std::shared_ptr<NcclLibrary> library_;
  NcclLibrary::Group* group_;
  double patience_;
  bool usable_ = true, under_way_ = false;
  std::string broken_by_;
};

/// Device memory for the length of one call.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(NcclLibrary& library, std::int64_t bytes) : library_(&library), data_(bytes > 0 ? library.allocate(bytes) : nullptr) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept : library_(other.library_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_) library_->free(data_);
  }
  void* get() const { return data_; }

 private:
  NcclLibrary* library_ = nullptr;
  void* data_ = nullptr;
};

/// A buffer of a call where NCCL can reach it: the caller's own on a device, else a copy there.
class Staged {
 public:
  Staged(NcclLibrary& library, const void* host_in, void* host_out, std::int64_t bytes, bool on_device) : library_(library), host_out_(host_out), bytes_(bytes), on_device_(on_device) {
    if (on_device) {
      device_ = host_out ? host_out : const_cast<void*>(host_in);  // read-only where there is no way out
      return;
    }
    buffer_ = DeviceBuffer(library, bytes);
    device_ = buffer_.get();
    if (host_in && bytes > 0) library.copy_in(device_, host_in, bytes);
  }
  void* device() const { return device_; }
  void copy_out() const {
    if (!on_device_ && host_out_ && bytes_ > 0) library_.copy_out(host_out_, device_, bytes_);
  }

 private:
  NcclLibrary& library_;
  void* host_out_;
  std::int64_t bytes_;
  bool on_device_;
  void* device_ = nullptr;
  DeviceBuffer buffer_;
};

class NcclExchange final : public Exchange {
 public:
  NcclExchange(std::shared_ptr<NcclGroup> group, std::vector<Staged> sends, std::vector<Staged> receives) : group_(std::move(group)), sends_(std::move(sends)), receives_(std::move(receives)) {}
  ~NcclExchange() override {
    try {
      wait();
    } catch (const Error&) {  // what the caller would have heard from wait()
    }
  }
  void wait() override {
    if (std::exchange(done_, true)) return;
    if (sends_.empty() && receives_.empty()) return;
    for (const Staged& staged : receives_) staged.copy_out();
    group_->wait("send and receive", true);
  }

 private:
  std::shared_ptr<NcclGroup> group_;
  std::vector<Staged> sends_, receives_;
  bool done_ = false;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclGroup> group, int ranks, int rank, NodeMap nodes, const NcclOptions& options)
      : group_(std::move(group)), size_(ranks), rank_(rank), nodes_(std::move(nodes)), options_(options) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return "NCCL"; }
  const NodeMap& nodes() const override { return nodes_; }
  std::unique_ptr<SharedMemory> share(std::int64_t /*bytes*/) override { return nullptr; }
  std::string why_not_shared() const override { return "the NCCL transport reaches peers' memory itself"; }
  void node_barrier() override { barrier(); }

  void barrier() override {
    const DeviceBuffer word(library(), sizeof(std::int32_t));
    const std::int32_t zero = 0;
    library().copy_in(word.get(), &zero, sizeof zero);
    one_call("barrier", [&] { library().all_reduce(group_->get(), word.get(), word.get(), 1, Dtype::i32, Reduce::max); });
  }

  void all_reduce(const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) override {
    must_reduce(dtype);
    if (count == 0) return;
    const std::int64_t bytes = count * size_of(dtype);
    if (options_.buffers_on_device) return one_call("all_reduce", [&] { library().all_reduce(group_->get(), in, out, count, dtype, op); });
    const Staged staged(library(), in, out, bytes, false);
    one_call("all_reduce", [&] { library().all_reduce(group_->get(), staged.device(), staged.device(), count, dtype, op); }, {&staged});
  }

  void reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype, Reduce op) override {
    must_reduce(dtype);
    checked(counts, "reduce_scatter");
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), own = counts[static_cast<std::size_t>(rank_)];
    if (total == 0) return;
    const Staged whole(library(), in, nullptr, total * size_of(dtype), options_.buffers_on_device);
    const Staged piece(library(), nullptr, out, own * size_of(dtype), options_.buffers_on_device);
    one_call("reduce_scatter", [&] {
      std::int64_t offset = 0;
      for (int root = 0; root < size_; ++root) {
        const std::int64_t count = counts[static_cast<std::size_t>(root)];
        if (count > 0) library().reduce(group_->get(), at(whole.device(), offset, dtype), rank_ == root ? piece.device() : nullptr, count, dtype, op, root);
        offset += count;
      }
    }, {&piece});
  }

  void all_gather(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype) override {
    checked(counts, "all_gather");
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), own = counts[static_cast<std::size_t>(rank_)];
    if (total == 0) return;
    const Staged piece(library(), in, nullptr, own * size_of(dtype), options_.buffers_on_device);
    const Staged whole(library(), nullptr, out, total * size_of(dtype), options_.buffers_on_device);
    one_call("all_gather", [&] {  // counts differ, so that NCCL's own all-gather cannot serve: a broadcast a rank, all in one group
      std::int64_t offset = 0;
      for (int root = 0; root < size_; ++root) {
        const std::int64_t count = counts[static_cast<std::size_t>(root)];
        if (count > 0) library().broadcast(group_->get(), rank_ == root ? piece.device() : nullptr, at(whole.device(), offset, dtype), count, dtype, root);
        offset += count;
      }
    }, {&whole});
  }

  void all_to_all(const void* in, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* out, std::span<const std::int64_t> recv_counts,
                  std::span<const std::int64_t> recv_offsets, Dtype dtype) override {
    for (const auto list : {send_counts, send_offsets, recv_counts, recv_offsets}) checked(list, "all_to_all");
    const auto self = static_cast<std::size_t>(rank_);
    if (send_counts[self] != recv_counts[self]) throw Error(Error::Kind::internal, "all_to_all: rank " + std::to_string(rank_) + " sends itself another count than it receives");
    std::vector<Outgoing> outgoing;  // to itself too: NCCL copies on the device
    std::vector<Incoming> incoming;
    for (int step = 0; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      const auto p = static_cast<std::size_t>(peer);
      outgoing.push_back({at(in, send_offsets[p], dtype), send_counts[p], peer});
      incoming.push_back({at(out, recv_offsets[p], dtype), recv_counts[p], peer});
    }
    start_exchange(outgoing, incoming, dtype)->wait();
  }

  void broadcast(void* data, std::int64_t count, Dtype dtype, int root) override {
    if (count == 0) return;
    const Staged staged(library(), rank_ == root ? data : nullptr, data, count * size_of(dtype), options_.buffers_on_device);
    one_call("broadcast", [&] { library().broadcast(group_->get(), staged.device(), staged.device(), count, dtype, root); }, {&staged});
  }

  void send(const void* data, std::int64_t count, Dtype dtype, int to) override {
    const Outgoing message{data, count, to};
    start_exchange({&message, 1}, {}, dtype)->wait();
  }

  void receive(void* data, std::int64_t count, Dtype dtype, int from) override {
    const Incoming message{data, count, from};
    start_exchange({}, {&message, 1}, dtype)->wait();
  }

  std::unique_ptr<Exchange> start_exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Dtype dtype) override {
    std::vector<Staged> sends, receives;
    sends.reserve(outgoing.size());
    receives.reserve(incoming.size());
    for (const Outgoing& message : outgoing)
      if (message.count > 0) sends.emplace_back(library(), message.data, nullptr, message.count * size_of(dtype), options_.buffers_on_device);
    for (const Incoming& message : incoming)
      if (message.count > 0) receives.emplace_back(library(), nullptr, message.data, message.count * size_of(dtype), options_.buffers_on_device);
    if (!sends.empty() || !receives.empty()) {
      group_->began();
      library().begin();
      std::size_t next = 0;
      for (const Outgoing& message : outgoing)
        if (message.count > 0) library().send(group_->get(), sends[next++].device(), message.count, dtype, message.to);
      next = 0;
      for (const Incoming& message : incoming)
        if (message.count > 0) library().receive(group_->get(), receives[next++].device(), message.count, dtype, message.from);
      library().end(group_->get());
    }
    return std::make_unique<NcclExchange>(group_, std::move(sends), std::move(receives));
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    // Who is where: NCCL says only one's own new rank, and nodes are ours to know.
    std::vector<std::int64_t> all(3 * static_cast<std::size_t>(size_));
    const std::int64_t own[3] = {color, key, nodes_.node_of(rank_)};
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_), 3);
    on_host([&](Communicator& self) { self.all_gather(own, all.data(), counts, Dtype::i64); });
    NcclLibrary::Group* part = library().split(group_->get(), color, key);
    group_->wait("split", false);
    if (color < 0) return nullptr;
    std::vector<int> members;
    for (int r = 0; r < size_; ++r)
      if (all[3 * static_cast<std::size_t>(r)] == color) members.push_back(r);
    std::ranges::stable_sort(members, {}, [&](int r) { return all[3 * static_cast<std::size_t>(r) + 1]; });
    std::vector<int> labels;
    for (int r : members) labels.push_back(static_cast<int>(all[3 * static_cast<std::size_t>(r) + 2]));
    auto group = std::make_shared<NcclGroup>(group_->shared_library(), part, options_.patience_seconds);
    group->began();
    group->wait("split", false);
    const int rank = static_cast<int>(std::ranges::find(members, rank_) - members.begin());
    return std::make_unique<NcclCommunicator>(std::move(group), static_cast<int>(members.size()), rank, NodeMap(labels), options_);
  }

 private:
  /// Asks the group first: nothing may be put on the stream of one that was aborted.
  NcclLibrary& library() const {
    group_->get();
    return group_->library();
  }

  template <class F>
  void one_call(const char* name, F issue, std::initializer_list<const Staged*> results = {}) {
    group_->began();
    library().begin();
    issue();
    library().end(group_->get());
    for (const Staged* staged : results) staged->copy_out();
    group_->wait(name, true);
  }

  // A call of this transport's own on host memory, whatever its buffers are otherwise.
  template <class F>
  void on_host(F call) {
    const bool before = std::exchange(options_.buffers_on_device, false);
    call(*this);
    options_.buffers_on_device = before;
  }

  void checked(std::span<const std::int64_t> per_rank, const char* call) const {
    if (per_rank.size() != static_cast<std::size_t>(size_))
      throw Error(Error::Kind::internal, std::string(call) + ": " + std::to_string(per_rank.size()) + " counts or offsets for " + std::to_string(size_) + " ranks");
  }

  std::shared_ptr<NcclGroup> group_;
  int size_, rank_;
  NodeMap nodes_;
  NcclOptions options_;
};

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<NcclLibrary> library, const NcclLibrary::Id& id, int ranks, int rank, NodeMap nodes, const NcclOptions& options) {
  NcclLibrary::Group* group = library->start(id, ranks, rank);
  auto owned = std::make_shared<NcclGroup>(std::move(library), group, options.patience_seconds);
  owned->began();
  owned->wait("start of a group", false);
  return std::make_unique<NcclCommunicator>(std::move(owned), ranks, rank, std::move(nodes), options);
}

std::unique_ptr<Communicator> nccl_communicator(Communicator& bootstrap, std::string& why, const NcclOptions& options) {
  const NodeMap& nodes = bootstrap.nodes();
  const GpuList gpus = list_gpus();
  const int device = own_gpu(bootstrap, uuids_of(gpus.gpus), why);
  std::shared_ptr<NcclLibrary> library = device >= 0 ? load_nccl(device, why) : nullptr;
  std::int64_t failed = library ? bootstrap.size() : bootstrap.rank(), lowest = 0;
  bootstrap.all_reduce(&failed, &lowest, 1, Dtype::i64, Reduce::min);
  if (lowest < bootstrap.size()) {
    std::array<char, 256> reason{};
    why.copy(reason.data(), reason.size() - 1);
    bootstrap.broadcast(reason.data(), static_cast<std::int64_t>(reason.size()), Dtype::u8, static_cast<int>(lowest));
    why = "rank " + std::to_string(lowest) + ": " + reason.data();
    return nullptr;
  }
  NcclLibrary::Id id{};
  if (bootstrap.rank() == 0) id = library->unique_id();
  bootstrap.broadcast(id.data(), static_cast<std::int64_t>(id.size()), Dtype::u8, 0);
  return nccl_communicator(std::move(library), id, bootstrap.size(), bootstrap.rank(), nodes, options);
}

}  // namespace faibench
