// Throws through the C interface.
#include <stdexcept>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  throw std::runtime_error("no plan for this shape");
  return 0;
}
