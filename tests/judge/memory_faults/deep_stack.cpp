// A thread whose stack holds too much.
#include <pthread.h>

#include "hold.h"

static void* fill_stack(void*) {
  volatile char room[24 * mebibyte];
  for (long i = 0; i < 24 * mebibyte; i += 4096) room[i] = 1;
  return nullptr;
}

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 32 * mebibyte);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, fill_stack, nullptr) != 0) return 2;
  pthread_join(thread, nullptr);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
