// One step: cases, random cases, case files. Many steps: the stream passes ours and fails what a compressor must not do.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;

const Task& task() { return *find_task("grad_signsgd_error_feedback"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(grad_signsgd_error_feedback, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

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

TEST(ManySteps, short_streams_pass_baseline_and_cpu) {
  for (const char* variant : {"baseline", "cpu"}) {
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

TEST(ManySteps, holding_back_and_flushing_is_a_burst) {
  int step = 0;
  InProcess calls("baseline", [&](const TensorRefMap&, TensorMap& out) {
    if (++step % 3 == 0) return;
    // Nothing sent: a private format would say so with an empty payload.
    out.at("payload") = Tensor(Dtype::u8, {0});
  });
  EXPECT_TRUE(task().stream->drive("smoke", 8, calls).mismatch.has_value());
}

}  // namespace
}  // namespace faibench
