// Has two processes hold too much together: neither holds it alone, and the one that called them not at all.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  void* mapped = mmap(nullptr, 24 * mebibyte, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t children[2];
  for (pid_t& child : children) {
    child = fork();
    if (child < 0) return 2;
    if (child > 0) continue;
    touch(mapped, 24 * mebibyte);
    for (int i = 0; i < 4; ++i) wait_a_while();
    _exit(0);
  }
  munmap(mapped, 24 * mebibyte);
  for (pid_t child : children) waitpid(child, nullptr, 0);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
