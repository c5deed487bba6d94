// Four threads that each hold less than the limit, at one time.
#include <thread>
#include <vector>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      void* heap = std::malloc(6 * mebibyte);
      touch(heap, 6 * mebibyte);
      wait_a_while();
      std::free(heap);
    });
  right_transpose(inputs[0], outputs[0]);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
