// Ends itself with success in the middle of a call.
#include <unistd.h>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  _exit(0);
  return 0;
}
