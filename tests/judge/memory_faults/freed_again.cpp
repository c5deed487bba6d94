// Takes too much from malloc and frees it before the call ends.
#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  void* heap = std::malloc(24 * mebibyte);
  touch(heap, 24 * mebibyte);
  std::free(heap);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
