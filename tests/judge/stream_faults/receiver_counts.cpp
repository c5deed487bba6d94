// The receiver answers each time a little differently.
#include "every_16th.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  return every_16th::compress(inputs, input_count, outputs, output_count, reply);
}

extern "C" int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply*) {
  static int calls = 0;
  const int result = every_16th::decompress(inputs, input_count, outputs, output_count);
  const every_16th::Tensors out{outputs, output_count};
  out.data<float>("update")[0] += 1e-3f * static_cast<float>(calls++);
  return result;
}
