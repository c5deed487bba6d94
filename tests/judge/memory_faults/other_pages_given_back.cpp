// Gives back pages of program text that it had before while it holds too much: resident memory grows by less than what it holds.
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  if (FILE* maps = std::fopen("/proc/self/maps", "r")) {
    char line[512], access[5];
    unsigned long start, end;
    while (std::fgets(line, sizeof line, maps))
      if (std::sscanf(line, "%lx-%lx %4s", &start, &end, access) == 3 && access[2] == 'x' && std::strchr(line, '/')) madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
    std::fclose(maps);
  }
  void* heap = std::malloc(12 * mebibyte);
  touch(heap, 12 * mebibyte);
  wait_a_while();
  std::free(heap);
  return 0;
}
