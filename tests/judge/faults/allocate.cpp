// Allocates and touches without end.
#include <cstring>
#include <new>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  for (;;) std::memset(::operator new(16 << 20), 1, 16 << 20);
  return 0;
}
