// Writes one element past the end of its output.
#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  static_cast<float*>(outputs[0].data)[outputs[0].extents[0] * outputs[0].extents[1]] = 1;
  return 0;
}
