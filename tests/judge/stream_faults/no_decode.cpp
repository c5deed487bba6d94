// A private format without a receiver for it: the task's own decoder gets it.
#include "every_16th.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  return every_16th::compress(inputs, input_count, outputs, output_count, reply);
}
