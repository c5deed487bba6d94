// Leaves a child behind that has left the process group.
#include <sys/prctl.h>
#include <unistd.h>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  if (fork() == 0) {
    setsid();
    prctl(PR_SET_NAME, "fault-orphan");
    for (;;) pause();
  }
  return 0;
}
