// What another process does with a GPU, for tests: the double's processes tell each other apart by the first argument.
//   other_process list           prints a line a GPU, or why there is none, and the driver
//   other_process candidate      reads a memory handle and a size from stdin, adds one to every byte of that memory, synchronises its device
// Errors go to stdout, with exit code 3.
#include <cstdio>
#include <vector>

#include "device/cuda_library.h"
#include "device/owners.h"

namespace faibench {
namespace {

int list() {
  const GpuList found = list_gpus();
  for (const GpuFacts& gpu : found.gpus) std::printf("%s\n", facts_text(gpu).c_str());
  if (found.gpus.empty()) std::printf("none: %s\n", found.why_none.c_str());
  else std::printf("driver %s\n", found.driver.c_str());
  return 0;
}

int add_one() {
  CudaLibrary::MemoryHandle handle;
  std::size_t bytes = 0;
  if (std::fread(handle.data(), handle.size(), 1, stdin) != 1 || std::fread(&bytes, sizeof bytes, 1, stdin) != 1) return 2;
  CudaLibrary& cuda = cuda_library_on("");
  const OpenedGpuMemory memory = open_gpu_memory(cuda, handle);
  std::vector<unsigned char> host(bytes);
  cuda.copy(host.data(), memory.get(), bytes, nullptr);
  for (unsigned char& byte : host) ++byte;
  cuda.copy(memory.get(), host.data(), bytes, nullptr);
  cuda.synchronize_device();
  return 0;
}

}  // namespace
}  // namespace faibench

int main(int argc, char** argv) {
  try {
    return argc > 1 && std::string(argv[1]) == "list" ? faibench::list() : faibench::add_one();
  } catch (const faibench::Error& e) {
    std::string why;
    std::printf("%s; context %s\n", e.what(), faibench::cuda_library(why)->context_is_lost() ? "lost" : "well");
    return 3;
  }
}
