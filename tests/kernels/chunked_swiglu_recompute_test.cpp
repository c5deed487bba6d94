#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"
#include "kernels/linalg/chunked_swiglu_recompute/inputs.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;
namespace swiglu = chunked_swiglu_recompute;

const Task& task() { return *find_task("chunked_swiglu_recompute"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(chunked_swiglu_recompute, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

TEST(ChunkedSwiglu, is_right_on_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 20);
  });
}

TEST(ChunkedSwiglu, is_right_for_any_thread_count) {
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    check_random_cases(task(), "cpu", 20);
    Random random(8);
    check_inputs(task(), variant_of(task(), "cpu"), swiglu::layer_inputs(random, {150, 70, 130, 16}));
  }
  omp_set_num_threads(before);
}

// Blocks are chosen by memory: three buffers of F = 1024 in 1.5 MiB a thread are 128 rows, so that these inputs take several, the last one short.
TEST(ChunkedSwiglu, is_right_over_several_blocks_of_tokens) {
  Random random(5);
  check_inputs(task(), variant_of(task(), "cpu"), swiglu::layer_inputs(random, {1100, 9, 1024, 3}));
}

TEST(ChunkedSwiglu, gives_a_token_the_same_bits_whatever_its_neighbours_hold) {
  Random random(6);
  const TensorMap inputs = swiglu::layer_inputs(random, {40, 33, 70, 8});
  TensorMap spoiled = clone(inputs);
  for (std::int64_t t = 0; t < 40; t += 2)
    for (std::int64_t c = 0; c < 33; ++c) spoiled.at("x").view<float, 2>()(t, c) = NAN, spoiled.at("dy").view<float, 2>()(t, c) = NAN;
  const auto answer = [](const TensorMap& in) { return run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(in)); };
  const TensorMap before = answer(inputs), after = answer(spoiled);
  for (const char* name : {"y", "dx"})
    for (std::int64_t t = 1; t < 40; t += 2)
      EXPECT_EQ(std::memcmp(&before.at(name).view<float, 2>()(t, 0), &after.at(name).view<float, 2>()(t, 0), 33 * sizeof(float)), 0) << name << " of token " << t;
}

// sig(g) is no f32 number any more, or loses bits on its way there, and u makes something of it.
TEST(ChunkedSwiglu, keeps_what_nearly_closed_gates_let_through) {
  under_every_instruction_set([](std::int64_t) {
    // With a larger u only forward: du is no f32 number then, whoever keeps it in one.
    for (const auto& [factor, dy] : {std::pair{1e3f, 1.0f}, {1e10f, 0.0f}, {1e20f, 0.0f}, {1e30f, 0.0f}}) {
      SCOPED_TRACE(factor);
      TensorMap inputs;
      const auto x = inputs.add("x", Tensor(Dtype::f32, {200, 1})).flat<float>();
      for (std::size_t t = 0; t < x.size(); ++t) x[t] = -84 - 0.5f * static_cast<float>(t);
      inputs.add("w_gate", Tensor::of<float>({1, 1}, {1}));
      inputs.add("w_up", Tensor::of<float>({1, 1}, {factor}));
      inputs.add("w_down", Tensor::of<float>({1, 1}, {10}));
      inputs.add("dy", Tensor::of<float>({200, 1}, std::vector<float>(200, dy)));
      inputs.add("chunk_size", Tensor::scalar(std::int64_t{16}));
      for (const char* variant : {"reference", "cpu"}) check_inputs(task(), variant_of(task(), variant), inputs);
    }
  });
}

TEST(ChunkedSwiglu, takes_saturated_gates_as_what_they_are) {
  TensorMap inputs;
  inputs.add("x", Tensor::of<float>({4, 1}, {200, -200, 0, 1e30f}));
  inputs.add("w_gate", Tensor::of<float>({1, 1}, {1}));
  inputs.add("w_up", Tensor::of<float>({1, 1}, {0.5f}));
  inputs.add("w_down", Tensor::of<float>({1, 1}, {2}));
  inputs.add("dy", Tensor::of<float>({4, 1}, {1, 1, 1, 0}));
  inputs.add("chunk_size", Tensor::scalar(std::int64_t{3}));
  for (const char* variant : {"reference", "baseline", "cpu"}) {
    SCOPED_TRACE(variant);
    const TensorMap outputs = run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs));
    const auto y = outputs.at("y").view<float, 2>(), dx = outputs.at("dx").view<float, 2>();
    EXPECT_FLOAT_EQ(y(0, 0), 40000);   // 200 * 100 * 2
    EXPECT_FLOAT_EQ(dx(0, 0), 400);    // (u*1 + a*0.5) * 2
    EXPECT_EQ(y(1, 0), 0);
    EXPECT_EQ(dx(1, 0), 0);
    EXPECT_EQ(y(2, 0), 0);
    EXPECT_EQ(dx(2, 0), 0);            // u = a = 0
    EXPECT_EQ(dx(3, 0), 0);
  }
}

class Gate : public testing::Test {
 protected:
  Gate() : inputs_(swiglu::layer_inputs(random_, {20, 24, 40, 8})), expected_(expected_outputs(task(), refs(inputs_))) {}
  bool passes(const TensorMap& outputs) const { return !task().gate.check({refs(inputs_), refs(outputs), refs(expected_), {}}); }
  TensorMap answer() const { return run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(inputs_)); }
  Random random_{11};
  TensorMap inputs_, expected_;
};

TEST_F(Gate, takes_the_reference_whose_code_is_another) { EXPECT_TRUE(passes(answer())); }

TEST_F(Gate, measures_errors_by_the_row) {
  for (const char* name : {"y", "dx"}) {
    TensorMap outputs = answer();
    auto out = outputs.at(name).view<float, 2>();
    float largest = 0;
    for (std::int64_t c = 0; c < 24; ++c) largest = std::max(largest, std::abs(out(7, c)));
    const float t = 0x1p-24f * (128 + 8 * 8);
    out(7, 23) += 0.5f * t * largest;
    EXPECT_TRUE(passes(outputs)) << name;
    out(7, 23) += 3 * t * largest;
    EXPECT_FALSE(passes(outputs)) << name;
  }
}

TEST_F(Gate, refuses_swapped_gradients_and_a_derivative_without_its_second_term) {
  TensorMap swapped = clone(inputs_);
  std::swap(swapped.at("w_gate"), swapped.at("w_up"));
  TensorMap outputs = answer();
  outputs.at("dx") = std::move(run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(swapped)).at("dx"));
  EXPECT_FALSE(passes(outputs));
  TensorMap doubled = answer();
  for (float& v : doubled.at("dx").flat<float>()) v *= 2;  // scaled by a number of chunks
  EXPECT_FALSE(passes(doubled));
}

TEST_F(Gate, refuses_a_nan_that_is_none) {
  TensorMap outputs = answer();
  outputs.at("y").view<float, 2>()(19, 0) = NAN;
  EXPECT_FALSE(passes(outputs));
}

// No message is sent, so that the ranks can be had one after another.
TEST(Ranks, of_any_number_make_the_whole) {
  const MultiRank& form = *task().multi_rank;
  for (const int ranks : {1, 2, 3, 7})
    for (const MultiRank::RankCase& one : form.cases) {
      if (one.damage) continue;
      SCOPED_TRACE(one.name + " on " + std::to_string(ranks));
      Random random(task().name, one.name, 1, 0);
      const TensorMap whole = one.inputs(random, ranks);
      std::vector<TensorMap> outputs;
      std::int64_t tokens = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const TensorMap own = form.shard(whole, rank, ranks);
        tokens += own.at("x").shape()[0];
        outputs.push_back(run_kernel(form.contract, variant_of(task(), "cpu").kernel, refs(own)));
      }
      EXPECT_EQ(tokens, whole.at("x").shape()[0]);
      EXPECT_FALSE(form.gate(refs(whole), outputs)) << to_string(*form.gate(refs(whole), outputs));
      if (tokens >= 2 && ranks > 1 && one.name == "typical") {
        std::swap(outputs[0], outputs[1]);
        EXPECT_TRUE(form.gate(refs(whole), outputs));
      }
    }
}

TEST(Memory, limit_is_that_of_the_contract) {
  Random random(1);
  const auto limit = [&](std::int64_t T, std::int64_t chunk) { return task().memory->host_limit(refs(swiglu::layer_inputs(random, {T, 64, 512, chunk}))) - (16 << 20); };
  EXPECT_EQ(limit(100, 10), 4 * 10 * (6 * 512 + 4 * 64));
  EXPECT_EQ(limit(100, std::int64_t{1} << 40), 4 * 100 * (6 * 512 + 4 * 64));
  EXPECT_EQ(task().memory->calls.size(), 3u);
}

}  // namespace
}  // namespace faibench
