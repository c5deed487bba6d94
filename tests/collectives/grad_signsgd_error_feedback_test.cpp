// One step: cases, random cases, case files. Many steps: the stream passes ours and fails what a compressor must not do.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "collectives/grad_signsgd_error_feedback/sparse.h"
#include "collectives/grad_signsgd_error_feedback/streams.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;

const Task& task() { return *find_task("grad_signsgd_error_feedback"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(grad_signsgd_error_feedback, EveryVariant, testing::Values("reference", "baseline", "cpu", "cpu_dense", "cpu_dense_short"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

class FastVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(grad_signsgd_error_feedback, FastVariant, testing::Values("cpu", "cpu_dense", "cpu_dense_short"), [](const auto& i) { return std::string(i.param); });

TEST_P(FastVariant, holds_with_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), GetParam());
    check_random_cases(task(), GetParam(), 50);
  });
}

TEST_P(FastVariant, gives_the_same_bits_on_any_number_of_threads) {
  Random random(9);
  TensorMap inputs = task().random_case(random);
  const std::int64_t n = (1 << 17) + 777;  // enough for a second thread
  for (const char* name : {"grad", "error"}) random.fill_normal((inputs.at(name) = Tensor(Dtype::f32, {n})).flat<float>());
  inputs.at("layout") = Tensor::of<std::int64_t>({1, 2}, {1, n});
  inputs.at("rank") = Tensor::scalar<std::int32_t>(0);
  inputs.at("peers") = Tensor(Dtype::u8, {0});
  inputs.at("peer_offsets") = Tensor::of<std::int64_t>({1}, {0});
  const int before = omp_get_max_threads();
  TensorMap first;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    check_inputs(task(), variant_of(task(), GetParam()), inputs);
    TensorMap outputs = run_kernel(task().contract, variant_of(task(), GetParam()).kernel, refs(inputs));
    if (threads == 1) first = std::move(outputs);
    else
      for (auto& [name, tensor] : first) EXPECT_EQ(std::memcmp(tensor.data(), outputs.at(name).data(), static_cast<std::size_t>(tensor.bytes())), 0) << name << ", " << threads << " threads";
  }
  omp_set_num_threads(before);
}

/// Sender and receiver in this process; `meddle` may change what the sender returned.
class InProcess : public Stream::Calls {
 public:
  using Meddle = std::function<void(const TensorRefMap& inputs, TensorMap& outputs)>;
  explicit InProcess(const char* variant, Meddle meddle = {}) : variant_(variant_of(task(), variant)), meddle_(std::move(meddle)) {}
  bool send(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    sent_ = run_kernel(task().contract, variant_.kernel, inputs);
    if (meddle_) meddle_(inputs, sent_);
    outputs = refs(sent_);
    return true;
  }
  bool receive(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    received_ = run_kernel(task().stream->receiver, variant_.decoder ? variant_.decoder : task().stream->decoder, inputs);
    outputs = refs(received_);
    return true;
  }

 private:
  const Variant& variant_;
  Meddle meddle_;
  TensorMap sent_, received_;
};

TEST(ManySteps, short_streams_pass_all_of_ours) {
  for (const char* variant : {"baseline", "cpu", "cpu_dense", "cpu_dense_short"}) {
    InProcess calls(variant);
    const Stream::Result result = task().stream->drive("smoke", 5, calls);
    EXPECT_FALSE(result.mismatch.has_value()) << to_string(*result.mismatch);
    EXPECT_EQ(result.steps, 3 + 3 * 2);
    EXPECT_GT(result.ratio, 31);
  }
}

TEST(ManySteps, a_receiver_that_needs_more_than_the_payload_is_found) {
  InProcess calls("cpu", [](const TensorRefMap&, TensorMap& out) {  // an update that the payload does not carry
    const auto update = out.at("update").flat<float>(), error = out.at("new_error").flat<float>();
    error[3] += update[3] - 0.25f * error[3];
    update[3] = 0.25f * error[3];
  });
  EXPECT_TRUE(task().stream->drive("smoke", 6, calls).mismatch.has_value());
}

TEST(ManySteps, a_lost_error_breaks_conservation) {
  InProcess calls("cpu", [](const TensorRefMap&, TensorMap& out) {
    for (float& e : out.at("new_error").flat<float>()) e *= 0.9f;
  });
  EXPECT_TRUE(task().stream->drive("smoke", 7, calls).mismatch.has_value());
}

/// Format 128 reads zeros past its end: a payload made longer by zeros decodes to the same update, so nothing but its length is changed.
GateResult with_one_payload_longer(std::int64_t zeros) {
  int call = 0;
  InProcess calls("cpu", [&](const TensorRefMap&, TensorMap& out) {
    if (++call != 4) return;
    const Tensor& payload = out.at("payload");
    Tensor longer(Dtype::u8, {payload.bytes() + zeros});
    std::ranges::fill(longer.flat<std::uint8_t>(), std::uint8_t{0});
    std::ranges::copy(payload.flat<std::uint8_t>(), longer.flat<std::uint8_t>().begin());
    out.at("payload") = std::move(longer);
  });
  return task().stream->drive("smoke", 8, calls).mismatch;
}

TEST(ManySteps, a_payload_of_more_than_twice_the_mean_and_64_bytes_is_a_burst) {
  const GateResult even = with_one_payload_longer(64);  // below mean + 64 more than the mean
  EXPECT_FALSE(even) << to_string(*even);
  const GateResult burst = with_one_payload_longer(2000);
  ASSERT_TRUE(burst);
  EXPECT_NE(burst->what.find("is a burst"), std::string::npos) << burst->what;
}

TEST(SparseFormat, an_element_alone_is_sent_as_the_next_sixteenth_of_an_octave_below_it) {
  // One element, as its own threshold: sent values lie on the grid 2^(k/16), at most the element, and less than a step below it.
  for (const float x : {1e-44f, 1e-38f, 1e-6f, 0.75f, 1.0f, 1.1f, 2.0f, 3.7f, 1e20f, 3e38f}) {
    const std::vector<float> c{x};
    const auto payload = grad_signsgd_error_feedback::sparse::encode(*grad_signsgd_error_feedback::sparse::pick(c, std::vector<float>{0}, 1), 1);
    float update = 0;
    grad_signsgd_error_feedback::sparse::expand(grad_signsgd_error_feedback::sparse::decode(payload, 1), {&update, 1});
    EXPECT_LE(update, x);
    if (x >= 1e-38f) { EXPECT_GE(update, x * (x < 1e30f ? 0.9576f : 0.5f)) << x; }  // 2^(-1/16); past the last threshold, 2^107, whole powers of two
  }
}

}  // namespace
}  // namespace faibench
