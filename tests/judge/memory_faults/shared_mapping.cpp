// The same in memory that is shared and so not private.
#include <sys/mman.h>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  void* mapped = mmap(nullptr, 24 * mebibyte, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  touch(mapped, 24 * mebibyte);
  munmap(mapped, 24 * mebibyte);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
