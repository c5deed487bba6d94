// Compressors that a gate worth its name must fail, over the contract's whole streams: no feedback, an error that decays, and sending every 32nd step.
// They report new_error honestly, so that no rule of a single step stops them: what they do wrong lies in what they send.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/grad_signsgd_error_feedback/streams.h"
#include "tensor/error.h"

namespace faibench {
namespace {

using grad_signsgd_error_feedback::Bound;
using grad_signsgd_error_feedback::Measured;
using grad_signsgd_error_feedback::measure_stream;

const Task& task() { return *find_task("grad_signsgd_error_feedback"); }

/// Sends by format 129, the dense one that is free to send what it likes; decodes what it sends.
class Control : public Stream::Calls {
 public:
  bool send(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    allocate(sent_, task().contract, inputs, outputs);
    send_step(inputs, outputs);
    const auto grad = inputs.at("grad").flat<const float>(), error = inputs.at("error").flat<const float>(), update = outputs.at("update").flat<const float>();
    const auto new_error = outputs.at("new_error").flat<float>();
    for (std::size_t i = 0; i < grad.size(); ++i) new_error[i] = grad[i] + error[i] - update[i];
    return true;
  }
  bool receive(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    allocate(received_, task().stream->receiver, inputs, outputs);
    if (inputs.at("payload").size() == 0) {
      std::ranges::fill(outputs.at("update").flat<float>(), 0.0f);
    } else if (call_kernel(task().stream->receiver, dense().decoder, inputs, outputs)) {
      throw Error(Error::Kind::internal, "not decoded");
    }
    return true;
  }

 protected:
  virtual void send_step(const TensorRefMap& inputs, TensorRefMap& outputs) = 0;
  /// The honest step, with `error` in the place of the one carried.
  static void compress(const TensorRefMap& inputs, std::span<const float> error, TensorRefMap& outputs) {
    TensorRefMap changed;
    for (auto& [name, tensor] : inputs) changed.add(name, tensor);
    changed.at("error").data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(error.data()));
    if (const Rejected rejected = call_kernel(task().contract, dense().kernel, changed, outputs)) throw Error(Error::Kind::internal, rejected->message);
  }
  static void set_length(TensorRefMap& outputs, const char* name, std::int64_t bytes) { outputs.at(name).shape = {bytes}; }

 private:
  static const Variant& dense() { return *task().find_variant("cpu_dense_short"); }
  static void allocate(TensorMap& room, const Contract& contract, const TensorRefMap& inputs, TensorRefMap& outputs) {
    if (!room.find("update")) room = allocate_outputs(contract, inputs);
    outputs = refs(room);
  }
  TensorMap sent_, received_;
};

class NoFeedback : public Control {
  void send_step(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    nothing_.resize(static_cast<std::size_t>(inputs.at("grad").size()));
    compress(inputs, nothing_, outputs);
  }
  std::vector<float> nothing_;
};

/// Keeps an error of its own in its state, and 0.9 of it from step to step.
class DecayedError : public Control {
  void send_step(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    const auto n = static_cast<std::size_t>(inputs.at("grad").size());
    kept_.assign(n, 0.0f);
    const auto state = inputs.at("state").flat<const std::uint8_t>();
    std::memcpy(kept_.data(), state.data(), state.size());
    compress(inputs, kept_, outputs);
    const auto left = outputs.at("new_error").flat<const float>();
    for (std::size_t i = 0; i < n; ++i) kept_[i] = 0.9f * left[i];
    set_length(outputs, "new_state", static_cast<std::int64_t>(4 * n));
    std::memcpy(outputs.at("new_state").data, kept_.data(), 4 * n);
  }
  std::vector<float> kept_;
};

class EveryThirtySecond : public Control {
  void send_step(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    if (inputs.at("step").scalar<std::int64_t>() % 32 == 31) return compress(inputs, inputs.at("error").flat<const float>(), outputs);
    std::ranges::fill(outputs.at("update").flat<float>(), 0.0f);
    *outputs.at("format").flat<std::int32_t>().data() = 129;
    set_length(outputs, "payload", 0);
    set_length(outputs, "new_state", 0);
  }
};

/// What a control came to, printed as a line of the table in the task's README.
Measured whole_stream(const char* name, char which, Control& control) {
  Measured measured = measure_stream(which, "standard", 11, control, true);
  EXPECT_FALSE(measured.mismatch) << to_string(*measured.mismatch);
  for (const Bound& bound : measured.bounds)
    std::printf("%s, stream %c: %s: %.4g, %s %.4g%s\n", name, which, bound.name.c_str(), bound.value, bound.at_most ? "at most" : "at least", bound.limit, bound.holds() ? "" : "  FAILS");
  return measured;
}

const Bound& bound_of(const Measured& measured, const std::string& part) {
  for (const Bound& bound : measured.bounds)
    if (bound.name.find(part) != std::string::npos) return bound;
  throw Error(Error::Kind::internal, "no bound '" + part + "'");
}

TEST(Controls, no_feedback_loses_track_and_lets_the_error_grow) {
  NoFeedback control;
  const Measured measured = whole_stream("no feedback", 'O', control);
  EXPECT_EQ(measured.steps, 2048);
  EXPECT_FALSE(bound_of(measured, "tracking").holds());
  EXPECT_GT(bound_of(measured, "tracking").value, 0.3);
  EXPECT_FALSE(bound_of(measured, "in largest gradients").holds());
}

TEST(Controls, an_error_that_decays_loses_track) {
  DecayedError control;
  const Measured measured = whole_stream("error decayed by 0.9", 'O', control);
  EXPECT_EQ(measured.steps, 2048);
  EXPECT_FALSE(bound_of(measured, "tracking").holds());
}

TEST(Controls, sending_every_32nd_step_is_a_burst_in_either_stream) {
  EveryThirtySecond control;
  const Measured open = whole_stream("every 32nd step", 'O', control);
  EXPECT_EQ(open.steps, 2048);
  EXPECT_FALSE(bound_of(open, "burst").holds());
}

TEST(Controls, sending_every_32nd_step_diverges_in_the_closed_loop) {
  EveryThirtySecond control;
  const Measured closed = whole_stream("every 32nd step", 'C', control);
  EXPECT_FALSE(bound_of(closed, "uncompressed descent").holds());
  EXPECT_FALSE(bound_of(closed, "burst").holds());
}

TEST(Controls, each_is_refused_by_the_stream_as_the_judge_drives_it) {
  NoFeedback none;
  const Stream::Result result = task().stream->drive("standard", 12, none);
  ASSERT_TRUE(result.mismatch);
  EXPECT_LT(result.steps, 2048);  // as soon as the error is too large
  EXPECT_NE(result.mismatch->what.find("at most"), std::string::npos) << result.mismatch->what;
}

/// The literal forms, which lose error in what they report: conservation ends them at the first step that has one.
class Forgetful : public NoFeedback {
 public:
  explicit Forgetful(float kept) : kept_(kept) {}
  bool send(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    Control::send(inputs, outputs);
    for (float& e : outputs.at("new_error").flat<float>()) e *= kept_;
    return true;
  }

 private:
  float kept_;
};

TEST(Controls, an_error_reported_as_less_than_was_lost_breaks_conservation_at_once) {
  for (const float kept : {0.0f, 0.9f, 0.999f}) {
    Forgetful control(kept);
    const Stream::Result result = task().stream->drive("standard", 13, control);
    ASSERT_TRUE(result.mismatch) << kept;
    EXPECT_NE(result.mismatch->what.find("new_error is not c - update at step 0"), std::string::npos) << result.mismatch->what;
    EXPECT_EQ(result.steps, 0);
  }
}

}  // namespace
}  // namespace faibench
