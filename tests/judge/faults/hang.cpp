// Loops for ever and does not listen to SIGTERM.
#include <csignal>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  std::signal(SIGTERM, SIG_IGN);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  for (volatile bool forever = true; forever;) {}
  return 0;
}
