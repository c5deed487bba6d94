// Keeps too much in a file of the kernel's memory and maps a small window of it at a time.
#include <sys/mman.h>
#include <unistd.h>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  const int file = memfd_create("store", 0);
  if (file < 0 || ftruncate(file, 24 * mebibyte) != 0) return 2;
  for (long at = 0; at < 24 * mebibyte; at += mebibyte) {
    void* window = mmap(nullptr, mebibyte, PROT_READ | PROT_WRITE, MAP_SHARED, file, at);
    if (window == MAP_FAILED) return 2;
    touch(window, mebibyte);
    munmap(window, mebibyte);
  }
  wait_a_while();
  close(file);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
