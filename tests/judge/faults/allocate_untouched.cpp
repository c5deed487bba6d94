// Maps without end and never looks at it.
#include <new>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  for (;;) {
    char* volatile p = static_cast<char*>(::operator new(64 << 20));
    (void)p;
  }
  return 0;
}
