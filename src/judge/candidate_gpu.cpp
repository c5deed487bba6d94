#include "judge/candidate_gpu.h"

#include <algorithm>
#include <cstring>

#include "task/device_library.h"

namespace faibench {

CandidateGpu::CandidateGpu(const std::string& uuid, std::byte* data) : cuda_(cuda_library_on(uuid)), data_(data) {}

void CandidateGpu::follow(const ControlPage& page) {
  if (page.device_generation == generation_) return;
  const std::int64_t bytes = page.device_bytes;
  memory_ = {};
  CudaLibrary::MemoryHandle handle;
  std::memcpy(handle.data(), page.device_handle, sizeof handle);
  memory_ = open_gpu_memory(cuda_, handle);
  if (page.device_locked) {
    locked_ = {};
    locked_ = lock_pages(cuda_, data_, static_cast<std::size_t>(bytes));
  }
  bytes_ = bytes;
  generation_ = page.device_generation;
}

Kernel CandidateGpu::call(const Kernel& kernel, const std::vector<std::string>& on_host) {
  const auto placed = [this, on_host](const std::string& name, TensorRef tensor, bool output) {
    if (!output && (tensor.rank() == 0 || std::ranges::find(on_host, name) != on_host.end())) return tensor;
    const std::ptrdiff_t offset = tensor.data - data_;
    if (offset < 0 || offset + tensor.bytes() > bytes_) throw Error(Error::Kind::internal, "tensor " + name + " is not in the device memory of this call");
    tensor.data = static_cast<std::byte*>(memory_.get()) + offset;
    return tensor;
  };
  const auto on_device = [this, kernel, placed](Arguments& host) {
    TensorRefMap inputs, outputs;
    for (const auto& [name, tensor] : host.inputs) inputs.add(name, placed(name, tensor, host.outputs.find(name) != nullptr));
    for (const auto& [name, tensor] : host.outputs) outputs.add(name, placed(name, tensor, true));
    Arguments device{inputs, outputs, {}};
    try {
      Rejected rejected = kernel(device);
      cuda_.synchronize_device();
      host.lengths = device.lengths;
      return rejected;
    } catch (const KernelFault&) {
      throw;
    } catch (const Error& e) {
      if (e.kind != Error::Kind::device) throw;
      const std::string what = e.what();
      const bool memory = what.find("cudaErrorMemoryAllocation") != std::string::npos;
      throw KernelFault(memory ? out_of_device_memory : device_error, what + (cuda_.context_is_lost() ? " (the context is lost)" : ""));
    }
  };
  return Kernel({{[](const TensorRefMap&, const TensorRefMap&) { return true; }, on_device}});
}

}  // namespace faibench
