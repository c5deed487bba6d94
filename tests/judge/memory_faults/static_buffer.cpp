// Keeps its memory in a variable of the library.
#include "hold.h"

static char buffer[24 * mebibyte];

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  touch(buffer, sizeof buffer);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
