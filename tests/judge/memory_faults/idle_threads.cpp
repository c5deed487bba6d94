// Eight threads whose stacks are mapped and all but untouched: address space, not memory.
#include <thread>
#include <vector>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(wait_a_while);
  right_transpose(inputs[0], outputs[0]);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
