#include "judge/gpu_bench.h"

#include <algorithm>
#include <cstring>

#include "device/cuda_library.h"

namespace faibench {
namespace {

GpuFacts facts_of(const std::string& uuid) {
  const GpuList list = list_gpus();
  for (const GpuFacts& gpu : list.gpus)
    if (uuid.empty() || gpu.uuid == uuid) return gpu;
  throw Error(Error::Kind::device, "no GPU " + uuid + ": " + list.why_none);
}

Nvml* loaded_nvml() {
  std::string why;
  return nvml(why);
}

// A handle shares the whole block that the driver cut an allocation from: of this size, nothing else lies in it.
constexpr std::int64_t block_bytes = std::int64_t{2} << 20;

}  // namespace

GpuBench::GpuBench(const std::string& uuid) : cuda_(cuda_library_on(uuid)), facts_(facts_of(uuid)), window_(cuda_, facts_.l2_bytes), nvml_(loaded_nvml()) {}

GpuReading GpuBench::reading() { return nvml_ ? nvml_->reading(facts_.uuid) : GpuReading{}; }

DeviceTensors::DeviceTensors(GpuBench& bench, std::vector<std::string> on_host) : bench_(bench), on_host_(std::move(on_host)), stream_(gpu_stream(bench.cuda())) {}

bool DeviceTensors::holds(const std::string& name, const TensorRef& tensor, bool output) const {
  return output || (tensor.rank() > 0 && std::ranges::find(on_host_, name) == on_host_.end());
}

void DeviceTensors::make_room(std::int64_t bytes, Arena& arena, ControlPage& page) {
  if (bytes > bytes_) {
    bytes = (bytes + block_bytes - 1) / block_bytes * block_bytes;
    before_ = std::move(memory_);
    memory_ = gpu_memory(bench_.cuda(), static_cast<std::size_t>(bytes));
    locked_ = {};
    try {
      locked_ = lock_pages(bench_.cuda(), arena.data(), static_cast<std::size_t>(bytes));
    } catch (const Error&) {  // copies outside the timed window are slower then
    }
    bytes_ = bytes;
    ++page.device_generation;
  }
  page.device_bytes = bytes_;
  page.device_locked = !on_host_.empty();
  const CudaLibrary::MemoryHandle handle = bench_.cuda().handle(memory_.get());
  static_assert(sizeof page.device_handle == sizeof handle);
  std::memcpy(page.device_handle, handle.data(), sizeof handle);
}

void DeviceTensors::copy(const Arena& arena, bool to_device) {
  for (const auto& [start, bytes] : arena.ranges([this](const std::string& name, const TensorRef& tensor, bool output) { return holds(name, tensor, output); })) {
    if (to_device) bench_.cuda().copy(data() + start, arena.data() + start, static_cast<std::size_t>(bytes), stream_.get());
    else bench_.cuda().copy(arena.data() + start, data() + start, static_cast<std::size_t>(bytes), stream_.get());
  }
  bench_.cuda().synchronize(stream_.get());
}

void DeviceTensors::send(const Arena& arena) { copy(arena, true); }
void DeviceTensors::fetch(const Arena& arena) { copy(arena, false); }

}  // namespace faibench
