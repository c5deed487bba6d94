// The receiver writes to the payload that it was given.
#include "every_16th.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  return every_16th::compress(inputs, input_count, outputs, output_count, reply);
}

extern "C" int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply*) {
  const int result = every_16th::decompress(inputs, input_count, outputs, output_count);
  const every_16th::Tensors in{inputs, input_count};
  in.data<unsigned char>("payload")[0] ^= 1;
  return result;
}
