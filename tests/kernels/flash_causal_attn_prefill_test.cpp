// flash_causal_attn_prefill: every variant on cases, random cases and case files; what the kernel promises beyond the gate.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks { const Task& flash_causal_attn_prefill(); }
namespace {

using namespace testing_support;

const Task& task() { return tasks::flash_causal_attn_prefill(); }

TensorMap case_inputs(std::string_view name) { return testing_support::case_inputs(task(), name); }
TensorMap run(std::string_view variant, const TensorMap& inputs) { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

/// The first `tokens` positions of a [1, L, H, D] tensor.
Tensor first_tokens(const Tensor& x, std::int64_t tokens) {
  Shape shape = x.shape();
  shape[1] = tokens;
  Tensor cut(x.dtype(), shape);
  std::memcpy(cut.data(), x.data(), static_cast<std::size_t>(cut.bytes()));
  return cut;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0;
}

class FlashCausalAttention : public MachineSetting {};

TEST_F(FlashCausalAttention, every_variant_holds_on_all_cases) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_all_cases(task(), variant);
}

TEST_F(FlashCausalAttention, every_variant_holds_on_random_cases) {
  check_random_cases(task(), "baseline", 60);
  check_random_cases(task(), "cpu", 150);
}

TEST_F(FlashCausalAttention, every_variant_holds_on_case_files) {
  for (const char* variant : {"reference", "baseline", "cpu"}) check_case_files(task(), variant);
}

TEST_F(FlashCausalAttention, holds_for_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 60);
  });
}

TEST_F(FlashCausalAttention, gives_the_same_bits_with_any_number_of_threads) {
  for (const char* name : {"odd_lengths", "bf16_grouped", "heads_12_over_4", "more_queries_than_keys"}) {
    const TensorMap inputs = case_inputs(name);
    omp_set_num_threads(1);
    const TensorMap alone = run("cpu", inputs);
    for (int threads : {2, 3, 7}) {
      omp_set_num_threads(threads);
      EXPECT_TRUE(same_bits(run("cpu", inputs).at("out"), alone.at("out"))) << name << ", " << threads << " threads";
    }
  }
}

TEST_F(FlashCausalAttention, rows_do_not_depend_on_later_tokens_in_any_bit) {
  const TensorMap quiet = case_inputs("first_70_tokens"), wild = case_inputs("first_70_tokens_wild_after");
  for (const char* name : {"q", "k", "v"}) ASSERT_TRUE(same_bits(first_tokens(quiet.at(name), 70), first_tokens(wild.at(name), 70))) << name;
  under_every_instruction_set([&](std::int64_t) {
    for (const char* variant : {"baseline", "cpu"}) {
      const Tensor before = first_tokens(run(variant, quiet).at("out"), 70), after = first_tokens(run(variant, wild).at("out"), 70);
      EXPECT_TRUE(same_bits(before, after)) << variant;
    }
  });
}

TEST_F(FlashCausalAttention, a_prefix_alone_gives_the_same_bits_as_within_its_prompt) {
  TensorMap whole = case_inputs("first_70_tokens"), prefix;
  for (const char* name : {"q", "k", "v"}) prefix.add(name, first_tokens(whole.at(name), 70));
  for (const char* name : {"scale", "causal"}) prefix.add(name, whole.at(name).clone());
  EXPECT_TRUE(same_bits(first_tokens(run("cpu", whole).at("out"), 70), run("cpu", prefix).at("out")));
}

TEST_F(FlashCausalAttention, a_query_without_a_key_gives_positive_zeros) {
  for (const char* name : {"more_queries_than_keys", "no_keys", "no_keys_no_mask"})
    for (const char* variant : {"reference", "baseline", "cpu"}) {
      const TensorMap outputs = run(variant, case_inputs(name));
      const Tensor& out = outputs.at("out");
      const std::size_t bytes = static_cast<std::size_t>(out.bytes() / out.shape()[0] / out.shape()[1]) * (std::string_view(name) == "more_queries_than_keys" ? 60 : 5);
      EXPECT_TRUE(std::all_of(out.data(), out.data() + bytes, [](std::byte b) { return b == std::byte{0}; })) << name << " " << variant;
    }
}

TEST_F(FlashCausalAttention, gate_refuses_what_is_no_answer) {
  Random random(task().name, "smoke", 1, 0);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random);
  const TensorMap right = run("reference", inputs), wanted = expected_outputs(task(), refs(inputs));
  const auto passes = [&](const TensorMap& outputs) {
    const TensorRefMap in = refs(inputs), out = refs(outputs), expected = refs(wanted);
    return !task().gate.check({in, out, expected, {}, false});
  };
  EXPECT_TRUE(passes(right));
  const auto refused = [&](const char* what, auto change) {
    TensorMap outputs = clone(right);
    change(outputs.at("out").flat<float>());
    EXPECT_FALSE(passes(outputs)) << what;
  };
  refused("zeros", [](std::span<float> out) { std::fill(out.begin(), out.end(), 0.0f); });
  refused("a constant", [](std::span<float> out) { std::fill(out.begin(), out.end(), 0.5f); });
  refused("the queries", [&](std::span<float> out) { std::ranges::copy(inputs.at("q").flat<float>(), out.begin()); });
  refused("the answer reversed", [](std::span<float> out) { std::reverse(out.begin(), out.end()); });
  refused("one element off by twice the tolerance", [](std::span<float> out) { out[1234] += 2 * (3e-5f + 1e-4f * std::abs(out[1234])); });
  refused("one NaN", [](std::span<float> out) { out.back() = NAN; });
}

TEST_F(FlashCausalAttention, floor_counts_visible_pairs_only) {
  const auto floor_of = [](std::int64_t Lq, std::int64_t Lk, bool causal) {
    TensorMap inputs;
    inputs.add("q", Tensor(Dtype::bf16, {2, Lq, 4, 8}));
    inputs.add("k", Tensor(Dtype::bf16, {2, Lk, 2, 8}));
    inputs.add("v", Tensor(Dtype::bf16, {2, Lk, 2, 8}));
    inputs.add("scale", Tensor::scalar(1.0f));
    inputs.add("causal", Tensor::boolean(causal));
    return task().floor(refs(inputs));
  };
  EXPECT_EQ(floor_of(10, 10, false).operations, 4.0 * 2 * 4 * 10 * 10 * 8);
  EXPECT_EQ(floor_of(10, 10, true).operations, 4.0 * 2 * 4 * 55 * 8);
  EXPECT_EQ(floor_of(3, 1, true).operations, 4.0 * 2 * 4 * 1 * 8);
  EXPECT_EQ(floor_of(10, 10, true).bytes, 2.0 * (2 * 2 * 10 * 4 * 8 + 2 * 2 * 10 * 2 * 8));
  EXPECT_EQ(floor_of(3, 1, true).bytes, 2.0 * (2 * (1 + 3) * 4 * 8 + 2 * 2 * 1 * 2 * 8));
  EXPECT_EQ(floor_of(5, 0, false).operations, 0);
}

}  // namespace
}  // namespace faibench
