// Threads that come and go faster than anyone looks, with stacks of the usual size and of their own: none of that memory is touched.
#include <pthread.h>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 3 * mebibyte);
  for (int round = 0; round < 100; ++round) {
    pthread_t threads[6];
    for (int i = 0; i < 6; ++i)
      if (pthread_create(&threads[i], i < 3 ? nullptr : &small, [](void*) -> void* { return nullptr; }, nullptr) != 0) return 2;
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
