// The receiver never answers its fourth payload.
#include "every_16th.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  return every_16th::compress(inputs, input_count, outputs, output_count, reply);
}

extern "C" int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply*) {
  static int calls = 0;
  if (++calls == 4)
    for (volatile bool forever = true; forever;) {}
  return every_16th::decompress(inputs, input_count, outputs, output_count);
}
