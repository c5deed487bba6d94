// Gives up, with words on stderr.
#include <cstdio>
#include <cstdlib>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  std::fputs("first line\nassertion failed: shape\n", stderr);
  std::abort();
  return 0;
}
