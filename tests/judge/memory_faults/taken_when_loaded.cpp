// Takes its memory before the first call.
#include "hold.h"

static void* const taken = [] {
  void* heap = std::malloc(24 * mebibyte);
  touch(heap, 24 * mebibyte);
  return heap;
}();

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  return taken ? 0 : 2;
}
