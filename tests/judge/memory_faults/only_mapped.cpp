// Maps too much and never touches it.
#include <sys/mman.h>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  static void* mapped = mmap(nullptr, 24 * mebibyte, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  right_transpose(inputs[0], outputs[0]);
  return mapped == MAP_FAILED ? 2 : 0;
}
