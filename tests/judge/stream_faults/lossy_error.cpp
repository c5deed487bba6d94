// Keeps 0.9 of the error.
#include "every_16th.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  const int result = every_16th::compress(inputs, input_count, outputs, output_count, reply);
  const every_16th::Tensors in{inputs, input_count}, out{outputs, output_count};
  for (int64_t i = 0; i < in["grad"].extents[0]; ++i) out.data<float>("new_error")[i] *= 0.9f;
  return result;
}

extern "C" int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply*) {
  return every_16th::decompress(inputs, input_count, outputs, output_count);
}
