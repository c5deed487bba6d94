// What a payload stands for depends on those before it: sender and receiver both add up what was sent for element 0, and send only by how much the sum moved.
#include "every_16th.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  static uint32_t sent_before = 0;
  if (const int rejected = every_16th::compress(inputs, input_count, outputs, output_count, reply)) return rejected;
  const every_16th::Tensors out{outputs, output_count};
  auto* payload = out.data<unsigned char>("payload");
  uint32_t first;
  std::memcpy(&first, payload, 4);
  const uint32_t moved = first - sent_before;
  sent_before = first;
  std::memcpy(payload, &moved, 4);
  return 0;
}

extern "C" int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply*) {
  static uint32_t received_before = 0;
  const every_16th::Tensors in{inputs, input_count};
  const int64_t bytes = in["payload"].extents[0];
  std::vector<unsigned char> payload(static_cast<std::size_t>(bytes));
  std::memcpy(payload.data(), in["payload"].data, payload.size());
  uint32_t moved;
  std::memcpy(&moved, payload.data(), 4);
  received_before += moved;
  std::memcpy(payload.data(), &received_before, 4);
  every_16th::expand(payload.data(), *in.data<int64_t>("n"), *in.data<int64_t>("step"), every_16th::Tensors{outputs, output_count}.data<float>("update"));
  return 0;
}
