// One element wrong, on large inputs only.
#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  if (outputs[0].extents[0] > 100 && outputs[0].extents[1] > 100) static_cast<unsigned*>(outputs[0].data)[7 * outputs[0].extents[1] + 5] ^= 1u;
  return 0;
}
