// Gives back the pages of the tensors, whose content stays where it is, while it holds a little too much shared memory: resident memory grows by less than what it holds.
#include <sys/mman.h>

#include <cstdint>

#include "hold.h"

static void give_back(const faibench_tensor& tensor) {
  const auto start = (reinterpret_cast<std::uintptr_t>(tensor.data) + 4095) / 4096 * 4096;
  madvise(reinterpret_cast<void*>(start), static_cast<std::size_t>(tensor.extents[0] * tensor.extents[1] * 4) - 4096, MADV_DONTNEED);
}

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  give_back(inputs[0]);
  give_back(outputs[0]);
  void* mapped = mmap(nullptr, 9 * mebibyte, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  touch(mapped, 9 * mebibyte);
  wait_a_while();
  munmap(mapped, 9 * mebibyte);
  return 0;
}
