// The CUDA runtime loaded at run time. Chosen where the build found a CUDA toolkit: types and names are its header's.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda_library.h"

namespace faibench {
namespace {

struct EntryPoints {
  decltype(&::cudaGetDeviceCount) get_device_count;
  decltype(&::cudaGetDeviceProperties) get_device_properties;
  decltype(&::cudaDeviceGetAttribute) get_attribute;
  decltype(&::cudaDriverGetVersion) driver_version;
  decltype(&::cudaSetDevice) set_device;
  decltype(&::cudaSetDeviceFlags) set_flags;
  cudaError_t (*allocate)(void**, std::size_t);
  decltype(&::cudaFree) release;
  decltype(&::cudaIpcGetMemHandle) get_handle;
  decltype(&::cudaIpcOpenMemHandle) open_handle;
  decltype(&::cudaIpcCloseMemHandle) close_handle;
  cudaError_t (*lock_pages)(void*, std::size_t, unsigned int);
  decltype(&::cudaHostUnregister) unlock_pages;
  decltype(&::cudaStreamCreateWithFlags) make_stream;
  decltype(&::cudaStreamDestroy) destroy_stream;
  cudaError_t (*make_event)(cudaEvent_t*, unsigned int);
  decltype(&::cudaEventDestroy) destroy_event;
  decltype(&::cudaEventRecord) record;
  decltype(&::cudaEventSynchronize) wait;
  decltype(&::cudaEventElapsedTime) elapsed;
  decltype(&::cudaMemcpyAsync) copy;
  decltype(&::cudaMemsetAsync) fill;
  decltype(&::cudaStreamSynchronize) synchronize_stream;
  decltype(&::cudaDeviceSynchronize) synchronize_device;
  decltype(&::cudaCtxResetPersistingL2Cache) reset_persisting;
  decltype(&::cudaMemGetInfo) memory;
  decltype(&::cudaGetLastError) last_error;
  decltype(&::cudaGetErrorName) error_name;
  decltype(&::cudaGetErrorString) error_string;
};

cudaStream_t raw(CudaLibrary::Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t raw(CudaLibrary::Event* event) { return reinterpret_cast<cudaEvent_t>(event); }

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int byte = 0; byte < 16; ++byte) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[byte]));
    if (byte == 4 || byte == 6 || byte == 8 || byte == 10) text += '-';
    text += hex;
  }
  return text;
}

class LoadedCuda final : public CudaLibrary {
 public:
  explicit LoadedCuda(const EntryPoints& cuda) : cuda_(cuda) {}

  int count(std::string& why) override {
    int count = 0;
    const cudaError_t status = cuda_.get_device_count(&count);
    if (status == cudaSuccess) {
      if (count == 0) why = "no GPU is visible";
      return count;
    }
    why = words(status);
    cuda_.last_error();  // not one for the next call
    return 0;
  }

  GpuFacts facts(int device) override {
    cudaDeviceProp properties{};
    check(cuda_.get_device_properties(&properties, device), "cudaGetDeviceProperties");
    GpuFacts facts;
    facts.uuid = uuid_text(properties.uuid);
    facts.name.assign(properties.name, strnlen(properties.name, sizeof properties.name));
    facts.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    facts.multiprocessors = properties.multiProcessorCount;
    facts.capability = 10 * properties.major + properties.minor;
    facts.l2_bytes = attribute(cudaDevAttrL2CacheSize, device);
    facts.exclusive = attribute(cudaDevAttrComputeMode, device) != cudaComputeModeDefault;
    return facts;
  }

  std::string driver() override {
    int version = 0;
    check(cuda_.driver_version(&version), "cudaDriverGetVersion");
    return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  void use(int device) override {
    check(cuda_.set_device(device), "cudaSetDevice");
    check(cuda_.set_flags(cudaDeviceScheduleSpin), "cudaSetDeviceFlags");
    check(cuda_.release(nullptr), "cudaFree");  // makes the context
  }

  void* allocate(std::size_t bytes) override {
    void* device = nullptr;
    check(cuda_.allocate(&device, bytes), "cudaMalloc");
    return device;
  }
  void release(void* device) noexcept override { keep(cuda_.release(device), "cudaFree"); }
  MemoryHandle handle(void* device) override {
    cudaIpcMemHandle_t handle;
    check(cuda_.get_handle(&handle, device), "cudaIpcGetMemHandle");
    MemoryHandle bytes;
    static_assert(sizeof handle == sizeof bytes);
    std::memcpy(bytes.data(), &handle, sizeof handle);
    return bytes;
  }
  void* open(const MemoryHandle& bytes) override {
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, bytes.data(), sizeof handle);
    void* device = nullptr;
    check(cuda_.open_handle(&device, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
    return device;
  }
  void close(void* device) noexcept override { keep(cuda_.close_handle(device), "cudaIpcCloseMemHandle"); }
  void lock_pages(void* host, std::size_t bytes) override { check(cuda_.lock_pages(host, bytes, cudaHostRegisterPortable), "cudaHostRegister"); }
  void unlock_pages(void* host) noexcept override { keep(cuda_.unlock_pages(host), "cudaHostUnregister"); }

  Stream* make_stream() override {
    cudaStream_t stream = nullptr;
    check(cuda_.make_stream(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return reinterpret_cast<Stream*>(stream);
  }
  void destroy(Stream* stream) noexcept override { keep(cuda_.destroy_stream(raw(stream)), "cudaStreamDestroy"); }
  Event* make_event() override {
    cudaEvent_t event = nullptr;
    check(cuda_.make_event(&event, cudaEventDefault), "cudaEventCreateWithFlags");
    return reinterpret_cast<Event*>(event);
  }
  void destroy(Event* event) noexcept override { keep(cuda_.destroy_event(raw(event)), "cudaEventDestroy"); }
  void record(Event* event, Stream* stream) override { check(cuda_.record(raw(event), raw(stream)), "cudaEventRecord"); }
  void wait(Event* event) override { check(cuda_.wait(raw(event)), "cudaEventSynchronize"); }
  double seconds_between(Event* start, Event* stop) override {
    float milliseconds = 0;
    check(cuda_.elapsed(&milliseconds, raw(start), raw(stop)), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  void copy(void* to, const void* from, std::size_t bytes, Stream* stream) override { check(cuda_.copy(to, from, bytes, cudaMemcpyDefault, raw(stream)), "cudaMemcpyAsync"); }
  void fill(void* to, unsigned char value, std::size_t bytes, Stream* stream) override { check(cuda_.fill(to, value, bytes, raw(stream)), "cudaMemsetAsync"); }
  void synchronize(Stream* stream) override { check(cuda_.synchronize_stream(raw(stream)), "cudaStreamSynchronize"); }
  void synchronize_device() override {
    check(cuda_.synchronize_device(), "cudaDeviceSynchronize");
    check(cuda_.last_error(), "an earlier launch");
  }
  void reset_persisting_lines() override { check(cuda_.reset_persisting(), "cudaCtxResetPersistingL2Cache"); }
  Memory memory() override {
    std::size_t free = 0, total = 0;
    check(cuda_.memory(&free, &total), "cudaMemGetInfo");
    return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  }
  bool context_is_lost() noexcept override {
    cuda_.last_error();  // one that is not sticky goes away with this
    return cuda_.synchronize_device() != cudaSuccess;
  }

 private:
  std::string words(cudaError_t status) const { return std::string(cuda_.error_name(status)) + ": " + cuda_.error_string(status); }
  int attribute(cudaDeviceAttr which, int device) const {
    int value = 0;
    check(cuda_.get_attribute(&value, which, device), "cudaDeviceGetAttribute");
    return value;
  }
  void check(cudaError_t status, const char* call) const {
    if (status != cudaSuccess) {
      cuda_.last_error();
      throw Error(Error::Kind::device, std::string(call) + ": " + words(status));
    }
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) return;
    throw Error(Error::Kind::device, std::exchange(kept_, {}));
  }
  void keep(cudaError_t status, const char* call) noexcept {
    if (status == cudaSuccess) return;
    cuda_.last_error();
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) kept_ = std::string(call) + " failed earlier: " + words(status);
  }

  const EntryPoints& cuda_;
  mutable std::mutex mutex_;
  mutable std::string kept_;
};

template <class F>
bool find(void* library, const char* name, F& entry, std::string& missing) {
  entry = reinterpret_cast<F>(dlsym(library, name));
  if (!entry && missing.empty()) missing = name;
  return entry != nullptr;
}

std::string fill_in(EntryPoints& e, void* library) {
  std::string missing;
  const auto find = [&](const char* name, auto& entry) { faibench::find(library, name, entry, missing); };
  find("cudaGetDeviceCount", e.get_device_count);
  find("cudaGetDeviceProperties", e.get_device_properties);
  find("cudaDeviceGetAttribute", e.get_attribute);
  find("cudaDriverGetVersion", e.driver_version);
  find("cudaSetDevice", e.set_device);
  find("cudaSetDeviceFlags", e.set_flags);
  find("cudaMalloc", e.allocate);
  find("cudaFree", e.release);
  find("cudaIpcGetMemHandle", e.get_handle);
  find("cudaIpcOpenMemHandle", e.open_handle);
  find("cudaIpcCloseMemHandle", e.close_handle);
  find("cudaHostRegister", e.lock_pages);
  find("cudaHostUnregister", e.unlock_pages);
  find("cudaStreamCreateWithFlags", e.make_stream);
  find("cudaStreamDestroy", e.destroy_stream);
  find("cudaEventCreateWithFlags", e.make_event);
  find("cudaEventDestroy", e.destroy_event);
  find("cudaEventRecord", e.record);
  find("cudaEventSynchronize", e.wait);
  find("cudaEventElapsedTime", e.elapsed);
  find("cudaMemcpyAsync", e.copy);
  find("cudaMemsetAsync", e.fill);
  find("cudaStreamSynchronize", e.synchronize_stream);
  find("cudaDeviceSynchronize", e.synchronize_device);
  find("cudaCtxResetPersistingL2Cache", e.reset_persisting);
  find("cudaMemGetInfo", e.memory);
  find("cudaGetLastError", e.last_error);
  find("cudaGetErrorName", e.error_name);
  find("cudaGetErrorString", e.error_string);
  return missing;
}

// By its own name first: a bundle brings it along, a module sets the path. Then where the toolkit of the build lies.
void* open_library(std::string& why) {
  const std::string name = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);
  const char* asked = std::getenv("FAIBENCH_CUDA_RUNTIME");
  std::vector<std::string> paths = {name, FAIBENCH_CUDA_LIBRARIES "/" + name};
  if (asked && *asked) paths = {asked};
  for (const std::string& path : paths)
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
  why = "the CUDA runtime cannot be loaded: " + std::string(dlerror());
  return nullptr;
}

}  // namespace

CudaLibrary* cuda_library(std::string& why) {
  static EntryPoints entries{};
  static std::string problem;
  static CudaLibrary* const loaded = []() -> CudaLibrary* {
    void* library = open_library(problem);
    if (!library) return nullptr;
    if (const std::string missing = fill_in(entries, library); !missing.empty()) {
      problem = "the CUDA runtime has no " + missing;
      return nullptr;
    }
    return new LoadedCuda(entries);  // kept to the end: what it gave out may be given back by destructors of statics
  }();
  why = problem;
  return loaded;
}

}  // namespace faibench
