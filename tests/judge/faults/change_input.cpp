// Changes the last element of its input after use.
#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  const int64_t size = inputs[0].extents[0] * inputs[0].extents[1];
  if (size > 0) static_cast<unsigned char*>(inputs[0].data)[4 * size - 1] ^= 1;
  return 0;
}
