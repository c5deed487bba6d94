#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/memory/runtime_arena_memplan/runtime_arena_memplan.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks { const Task& runtime_arena_memplan(); }
namespace {

using namespace testing_support;
using Values = std::vector<std::int64_t>;

const Task& task() { return tasks::runtime_arena_memplan(); }

TensorMap workload(const char* name, std::uint64_t repetition) {
  Random random(task().name, name, 1, repetition);
  return task().find_workload(name)->parts[0](random);
}

GateResult judge(const TensorMap& inputs, const TensorRefMap& outputs) {
  return task().gate.check({refs(inputs), outputs, TensorRefMap(), {}, false});
}

GateResult judge(const TensorMap& inputs, const Values& offset) {
  TensorMap outputs;
  outputs.add("offset", Tensor::of<std::int64_t>({static_cast<std::int64_t>(offset.size())}, offset));
  return judge(inputs, refs(outputs));
}

double q_of(const TensorMap& inputs, std::string_view variant) {
  const TensorMap outputs = run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs));
  EXPECT_FALSE(judge(inputs, refs(outputs)).has_value()) << variant;
  return task().metric.objective(refs(inputs), refs(outputs));
}

TensorMap buffers(std::int64_t align, const Values& size, const Values& alloc, const Values& free) {
  const std::int64_t N = static_cast<std::int64_t>(size.size());
  TensorMap in;
  in.add("align", Tensor::scalar(align));
  in.add("size", Tensor::of<std::int64_t>({N}, size));
  in.add("alloc", Tensor::of<std::int64_t>({N}, alloc));
  in.add("free", Tensor::of<std::int64_t>({N}, free));
  return in;
}

class Variants : public testing::TestWithParam<const char*> {};
TEST_P(Variants, plan_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(Variants, plan_random_cases) { check_random_cases(task(), GetParam(), 150); }
TEST_P(Variants, plan_case_files) { check_case_files(task(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(runtime_arena_memplan, Variants, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST(Reference, gives_the_plans_of_the_case_files) {
  for_each_answer(task(), [](const CaseFile& file) {
    for (const char* variant : {"reference", "baseline"}) {
      const TensorMap outputs = run_kernel(task().contract, variant_of(task(), variant).kernel, refs(file.inputs));
      const auto got = outputs.at("offset").flat<const std::int64_t>(), wanted = file.outputs.at("offset").flat<const std::int64_t>();
      EXPECT_EQ(Values(got.begin(), got.end()), Values(wanted.begin(), wanted.end())) << variant;
    }
  });
}

TEST(Reference, agrees_with_the_baseline_offset_by_offset) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    Random random(task().name, "agree", 1, i);
    const TensorMap inputs = i == 0 ? workload("smoke", 0) : task().random_case(random);
    const TensorMap a = run_kernel(task().contract, variant_of(task(), "reference").kernel, refs(inputs));
    const TensorMap b = run_kernel(task().contract, variant_of(task(), "baseline").kernel, refs(inputs));
    const auto x = a.at("offset").flat<const std::int64_t>(), y = b.at("offset").flat<const std::int64_t>();
    EXPECT_EQ(Values(x.begin(), x.end()), Values(y.begin(), y.end())) << "random case " << i;
  }
}

TEST(Cpu, is_legal_on_every_instruction_set) {
  under_every_instruction_set([](std::int64_t) {
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 100);
    check_inputs(task(), variant_of(task(), "cpu"), workload("smoke", 3));
  });
}

TEST(Cpu, is_legal_for_any_number_of_threads) {
  const int threads = omp_get_max_threads();
  for (int n : {1, 2, 3}) {
    omp_set_num_threads(n);
    check_all_cases(task(), "cpu");
    check_inputs(task(), variant_of(task(), "cpu"), workload("smoke", 2));
  }
  omp_set_num_threads(threads);
}

TEST(Cpu, is_about_as_compact_as_the_baseline) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    const TensorMap inputs = workload("smoke", i);
    EXPECT_LE(q_of(inputs, "cpu"), 1.02 * q_of(inputs, "baseline")) << "repetition " << i;
  }
}

TEST(Cpu, uses_the_gap_below_the_first_live_buffer) {
  const TensorMap inputs = buffers(1, {100, 80, 60}, {0, 1, 2}, {2, 3, 4});
  EXPECT_EQ(q_of(inputs, "cpu"), 1.0);
}

TEST(Cpu, plans_the_standard_workload) { EXPECT_LT(q_of(workload("standard", 0), "cpu"), 1.02); }

TEST(Cpu, stays_compact_where_thousands_are_alive_at_a_time) {
  const std::int64_t N = 6000;
  Random random(7);
  Values size, alloc, free;
  for (std::int64_t i = 0; i < N; ++i) {  // lifetimes of a third of all time, on more steps than a skyline is worth
    const std::int64_t a = random.below(4 * N), b = random.below(4 * N);
    size.push_back(random.between(1, 1 << 20));
    alloc.push_back(std::min(a, b));
    free.push_back(std::max(a, b) + 1);
  }
  EXPECT_LT(q_of(buffers(64, size, alloc, free), "cpu"), 1.1);
  for (std::int64_t i = 0; i < N; ++i) {  // lifetimes of 900 steps: gap searches run out
    alloc[static_cast<std::size_t>(i)] = i;
    free[static_cast<std::size_t>(i)] = i + 900;
  }
  EXPECT_LT(q_of(buffers(64, size, alloc, free), "cpu"), 1.1);
}

TEST(Cpu, plans_many_equal_buffers_without_waste) {  // an interval graph in one colour a row: equal sizes stack perfectly in order of birth
  Values size, alloc, free;
  Random random(8);
  for (std::int64_t i = 0; i < 3000; ++i) {
    size.push_back(4096);
    alloc.push_back(random.below(1500));
    free.push_back(alloc.back() + random.between(1, 6));
  }
  EXPECT_LE(q_of(buffers(64, size, alloc, free), "cpu"), 1.1);
}

TEST(Gate, says_what_is_illegal) {
  const TensorMap inputs = buffers(64, {100, 0, 300, 64}, {0, 0, 2, 8}, {3, 9, 5, 9});
  EXPECT_FALSE(judge(inputs, {0, 0, 128, 0}).has_value());
  EXPECT_FALSE(judge(inputs, {320, 0, 0, 448}).has_value());
  const struct { Values offset; const char* word; } wrong[] = {
      {{-64, 0, 128, 0}, "negative"}, {{0, 0, 130, 0}, "multiple"},       {{0, 64, 128, 0}, "0 bytes"},  {{0, 0, 64, 0}, "overlap"},
      {{0, 0, 0, 0}, "overlap"},      {{256, 0, 0, 0}, "overlap"},        {{0, 0, 320, 0}, "beyond"},   {{0, 0, 128, INT64_MAX - 63}, "beyond"},
  };
  for (const auto& w : wrong) {
    const GateResult bad = judge(inputs, w.offset);
    ASSERT_TRUE(bad.has_value()) << w.word;
    EXPECT_NE(to_string(*bad).find(w.word), std::string::npos) << to_string(*bad);
  }
}

TEST(Gate, agrees_with_a_test_of_every_pair) {
  int legal = 0, illegal = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    Random random(task().name, "pairs", 1, i);
    const std::int64_t N = random.between(1, 8);
    Values size, alloc, free, offset;
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < N; ++k) {
      size.push_back(random.below(5));
      alloc.push_back(random.below(10));
      free.push_back(alloc.back() + random.between(1, 4));
      sum += size.back();
    }
    for (std::int64_t k = 0; k < N; ++k) offset.push_back(size[static_cast<std::size_t>(k)] == 0 ? 0 : random.below(sum - size[static_cast<std::size_t>(k)] + 1));
    bool fine = true;
    for (std::size_t a = 0; a < size.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (size[a] > 0 && size[b] > 0 && alloc[a] < free[b] && alloc[b] < free[a] && offset[a] < offset[b] + size[b] && offset[b] < offset[a] + size[a]) fine = false;
    const GateResult bad = judge(buffers(1, size, alloc, free), offset);
    EXPECT_EQ(!bad.has_value(), fine) << "case " << i;
    (fine ? legal : illegal)++;
  }
  EXPECT_GT(legal, 40);
  EXPECT_GT(illegal, 40);
}

TEST(Gate, fails_answers_that_plan_nothing) {
  const TensorMap inputs = workload("smoke", 0);
  const std::size_t N = 500;
  EXPECT_TRUE(judge(inputs, Values(N, 0)).has_value()) << "all zeros";
  EXPECT_TRUE(judge(inputs, Values(N, 6400)).has_value()) << "a constant";
  const auto size = inputs.at("size").flat<const std::int64_t>();
  EXPECT_TRUE(judge(inputs, Values(size.begin(), size.end())).has_value()) << "a copy of an input";
  const TensorMap before = run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(workload("smoke", 1)));
  EXPECT_TRUE(judge(inputs, refs(before)).has_value()) << "the previous answer";
  const TensorMap right = run_kernel(task().contract, variant_of(task(), "cpu").kernel, refs(inputs));
  const auto offset = right.at("offset").flat<const std::int64_t>();
  Values rotated(offset.begin() + 1, offset.end());
  rotated.push_back(offset[0]);
  EXPECT_TRUE(judge(inputs, rotated).has_value()) << "a permuted answer";
}

TEST(Metric, is_the_rounded_peak_over_the_most_alive_at_one_time) {
  const TensorMap inputs = buffers(64, {100, 0, 300, 64}, {0, 0, 2, 8}, {3, 9, 5, 9});  // LB = 128 + 320
  const auto q = [&](const Values& offset) {
    TensorMap outputs;
    outputs.add("offset", Tensor::of<std::int64_t>({4}, offset));
    return task().metric.objective(refs(inputs), refs(outputs));
  };
  EXPECT_DOUBLE_EQ(q({0, 0, 128, 0}), 1.0);
  EXPECT_DOUBLE_EQ(q({0, 0, 192, 0}), 512.0 / 448);
  EXPECT_EQ(task().metric.exponent, 16);
  EXPECT_TRUE(task().metric.counts_time);
  TensorMap none = buffers(64, {0, 0}, {0, 0}, {1, 1}), zeros;
  zeros.add("offset", Tensor(Dtype::i64, {2}));
  EXPECT_EQ(task().metric.objective(refs(none), refs(zeros)), 1.0);
}

}  // namespace
}  // namespace faibench
