// Payloads that kernels wrote, on the emulator, and what a receiver on a CPU makes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"
#include "collectives/grad_signsgd_error_feedback/segments.h"
#include "emulator/emulated_call.h"
#include "task/device_variants.h"
#include "task/task.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

const Task& task() { return *find_task("grad_signsgd_error_feedback"); }

Kernel emulated(const std::string& variant) {
  for (const DeviceTask& device : all_device_tasks())
    if (device.task == task().name)
      for (const DeviceVariant& one : device.variants)
        if (one.name == variant) return emulator::emulated_call(one.kernel, task().find_variant(variant)->on_host);
  throw Error(Error::Kind::internal, "no device variant " + variant);
}

TensorMap step(std::span<const float> grad, std::span<const float> error) {
  const auto n = static_cast<std::int64_t>(grad.size());
  TensorMap inputs;
  inputs.add("grad", Tensor::of<float>({n}, std::vector<float>(grad.begin(), grad.end())));
  inputs.add("error", Tensor::of<float>({n}, std::vector<float>(error.begin(), error.end())));
  inputs.add("state", Tensor(Dtype::u8, {0}));
  inputs.add("step", Tensor::scalar<std::int64_t>(3));
  inputs.add("layout", Tensor::of<std::int64_t>({1, 2}, {1, n}));
  inputs.add("rank", Tensor::scalar<std::int32_t>(0));
  inputs.add("peers", Tensor(Dtype::u8, {0}));
  inputs.add("peer_offsets", Tensor::of<std::int64_t>({1}, {0}));
  return inputs;
}

/// Blocks of very different sizes, as streams have them.
std::vector<float> uneven(Random& random, std::int64_t n, float scale) {
  std::vector<float> values(static_cast<std::size_t>(n));
  random.fill_normal(values);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= scale * static_cast<float>(1 + i / 4096 * 7 % 5) * values[i] * values[i];
  return values;
}

std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  const auto bytes = tensor.flat<const std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

/// What `cuda` sends of these, after a look at whether its receiver makes `update` of it.
std::vector<std::uint8_t> sent(const TensorMap& inputs) {
  const Kernel cuda = emulated("cuda");
  const TensorMap outputs = run_kernel(task().contract, cuda, refs(inputs));
  const Tensor& update = outputs.at("update");
  std::vector<std::uint8_t> payload = bytes_of(outputs.at("payload"));
  std::vector<float> decoded(update.flat<const float>().size(), -1.0f);
  const std::int64_t n = update.size();
  segments::decompress(segments::format, {payload.data(), {static_cast<std::int64_t>(payload.size())}}, n, 3, {}, {decoded.data(), {n}});
  EXPECT_EQ(std::memcmp(decoded.data(), update.data(), decoded.size() * sizeof(float)), 0);
  return payload;
}

TEST(GradSignsgdOnGpu, codes_one_segment_as_cpu_does) {
  Random random(1);
  for (const std::int64_t n : {1, 2, 300, 4097, 12289, 30001}) {
    SCOPED_TRACE(n);
    const TensorMap inputs = step(uneven(random, n, 1), uneven(random, n, 20));
    EXPECT_EQ(sent(inputs), bytes_of(run_kernel(task().contract, task().find_variant("cpu")->kernel, refs(inputs)).at("payload")));
  }
}

TEST(GradSignsgdOnGpu, sends_the_first_of_equal_elements_and_nothing_of_zeros) {
  const std::vector<float> ones(9000, 1.0f), zeros(9000, 0.0f);
  const TensorMap equal = step(ones, ones);
  TensorMap few = step(zeros, zeros);
  EXPECT_EQ(sent(equal), bytes_of(run_kernel(task().contract, task().find_variant("cpu")->kernel, refs(equal)).at("payload")));
  EXPECT_TRUE(sent(few).empty());
  for (const std::int64_t i : {0, 4095, 8999}) few.at("error").flat<float>()[static_cast<std::size_t>(i)] = -1e-40f * static_cast<float>(i + 1);
  EXPECT_EQ(sent(few), bytes_of(run_kernel(task().contract, task().find_variant("cpu")->kernel, refs(few)).at("payload")));
}

TEST(GradSignsgdOnGpu, puts_the_payloads_of_segments_behind_each_other) {
  Random random(2);
  const std::int64_t n = segments::length + 5000;
  const std::vector<float> grad = uneven(random, n, 1), error = uneven(random, n, 3);
  const std::vector<std::uint8_t> all = sent(step(grad, error)), second = sent(step(std::span(grad).subspan(segments::length), std::span(error).subspan(segments::length)));
  ASSERT_GT(all.size(), second.size() + 2);
  EXPECT_EQ(all.size(), 2 + second.size() + (all[0] | static_cast<std::size_t>(all[1]) << 8));
  EXPECT_TRUE(std::equal(second.rbegin(), second.rend(), all.rbegin()));
}

TEST(GradSignsgdOnGpu, decodes_any_bytes_to_something) {
  Random random(3);
  const std::int64_t n = 2 * segments::length + 77;
  std::vector<float> update(static_cast<std::size_t>(n));
  for (const std::int64_t size : {0, 1, 3, 4, 5, 900}) {
    std::vector<std::uint8_t> payload;
    for (std::int64_t i = 0; i < size; ++i) payload.push_back(static_cast<std::uint8_t>(random.below(256)));
    std::fill(update.begin(), update.end(), std::numeric_limits<float>::quiet_NaN());
    EXPECT_FALSE(segments::decompress(segments::format, {payload.data(), {size}}, n, 0, {}, {update.data(), {n}}));
    EXPECT_TRUE(std::ranges::all_of(update, [](float x) { return std::isfinite(x); })) << size;
  }
}

/// A stream whose sender is emulated.
class Emulated : public Stream::Calls {
 public:
  explicit Emulated(const std::string& variant) : sender_(emulated(variant)), receiver_(task().find_variant(variant)->decoder) {
    if (!receiver_) receiver_ = task().stream->decoder;
  }
  bool send(const TensorRefMap& inputs, TensorRefMap& outputs) override { return run(task().contract, sender_, inputs, sent_, outputs); }
  bool receive(const TensorRefMap& inputs, TensorRefMap& outputs) override { return run(task().stream->receiver, receiver_, inputs, received_, outputs); }

 private:
  static bool run(const Contract& contract, const Kernel& kernel, const TensorRefMap& inputs, TensorMap& kept, TensorRefMap& outputs) {
    kept = run_kernel(contract, kernel, inputs);
    outputs = refs(kept);
    return true;
  }
  Kernel sender_, receiver_;
  TensorMap sent_, received_;
};

TEST(GradSignsgdOnGpu, passes_the_smoke_stream) {
  for (const char* variant : {"cuda_baseline", "cuda_dense", "cuda"}) {
    SCOPED_TRACE(variant);
    Emulated calls(variant);
    const Stream::Result result = task().stream->drive("smoke", 5, calls);
    EXPECT_FALSE(result.mismatch.has_value()) << to_string(*result.mismatch);
    EXPECT_GT(result.steps, 0);
    EXPECT_GT(result.ratio, std::string(variant) == "cuda" ? 600 : 31);
  }
}

}  // namespace
}  // namespace faibench::grad_signsgd_error_feedback
