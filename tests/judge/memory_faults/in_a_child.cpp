// Has a process of its own hold too much.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  static const pid_t child = [] {
    const pid_t forked = fork();
    if (forked == 0) {
      touch(std::malloc(24 * mebibyte), 24 * mebibyte);
      for (;;) pause();
    }
    return forked;
  }();
  wait_a_while();
  right_transpose(inputs[0], outputs[0]);
  return child > 0 ? 0 : 2;
}
