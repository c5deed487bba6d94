// The one-process form: cases, random cases, case files, threads, targets past the caches, and a gate that lets nothing wrong through.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "collectives/all2all_tensor_redistribute/one_process.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;
using faibench::all2all_tensor_redistribute::Example;
using faibench::all2all_tensor_redistribute::redistribute_input;

const Task& task() { return *find_task("all2all_tensor_redistribute"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(all2all_tensor_redistribute, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 200); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

TensorMap input_of(const Example& example, std::uint64_t seed = 1) {
  Random random(seed);
  return redistribute_input(random, example);
}
TensorMap out_of(const TensorMap& inputs, std::string_view variant = "cpu") { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

/// The place in the global tensor of every element of dst_data, told from its bytes.
std::vector<std::int64_t> moved(const Example& example, std::string_view variant) {
  const TensorMap inputs = input_of(example);
  const TensorMap order = input_of({example.shape, {1}, std::vector<std::vector<std::int64_t>>(example.shape.size()), std::vector<std::vector<std::int64_t>>(example.shape.size()), example.dtype});
  const auto pattern = order.at("src_data").flat<std::uint32_t>();
  const TensorMap outputs = out_of(inputs, variant);
  std::vector<std::int64_t> places;
  for (const std::uint32_t bits : outputs.at("dst_data").flat<std::uint32_t>()) places.push_back(std::ranges::find(pattern, bits) - pattern.begin());
  return places;
}

struct Layout {
  const char* name;
  Example example;
  std::vector<std::int64_t> places;    ///< of each target element in the global tensor, by hand
  std::vector<std::int64_t> offsets;
};
void PrintTo(const Layout& layout, std::ostream* os) { *os << layout.name; }
const Layout layouts[] = {
    {"six_over_four_leaves_the_last_rank_empty", {{6}, {4}, {{}}, {{0}}, Dtype::u32}, {0, 1, 2, 3, 4, 5}, {0, 2, 4, 6, 6}},
    {"two_over_two_then_four_is_nested", {{2}, {2, 4}, {{}}, {{0, 1}}, Dtype::u32}, {0, 1}, {0, 1, 1, 1, 1, 2, 2, 2, 2}},
    {"two_over_four_then_two_is_nested", {{2}, {2, 4}, {{}}, {{1, 0}}, Dtype::u32}, {0, 1}, {0, 1, 2, 2, 2, 2, 2, 2, 2}},
    {"the_order_of_axes_counts", {{4}, {2, 2}, {{0, 1}}, {{1, 0}}, Dtype::u32}, {0, 2, 1, 3}, {0, 1, 2, 3, 4}},
    {"rows_become_columns", {{2, 4}, {2}, {{0}, {}}, {{}, {0}}, Dtype::u32}, {0, 1, 4, 5, 2, 3, 6, 7}, {0, 4, 8}},
    {"an_axis_in_no_list_replicates", {{2}, {2, 2}, {{1}}, {{0}}, Dtype::u32}, {0, 0, 1, 1}, {0, 1, 2, 3, 4}},
};
class ByHand : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(all2all_tensor_redistribute, ByHand, testing::ValuesIn(layouts), [](const auto& i) { return std::string(i.param.name); });

TEST_P(ByHand, every_variant_moves_each_element_to_its_place) {
  for (const char* variant : {"reference", "baseline", "cpu"}) {
    EXPECT_EQ(moved(GetParam().example, variant), GetParam().places) << variant;
    const TensorMap outputs = out_of(input_of(GetParam().example), variant);
    const auto offsets = outputs.at("dst_offsets").flat<std::int64_t>();
    EXPECT_EQ(std::vector<std::int64_t>(offsets.begin(), offsets.end()), GetParam().offsets) << variant;
  }
}

TEST(All2allTensorRedistribute, is_right_on_any_number_of_threads) {
  const int before = omp_get_max_threads();
  const TensorMap large = input_of({{512, 48, 65}, {4, 2}, {{0}, {1}, {}}, {{1}, {}, {0}}, Dtype::f64}), whole = input_of({{1024, 1025}, {2}, {{0}, {}}, {{}, {}}, Dtype::u64});  // 12 and 16 MiB: enough for every thread
  for (int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    SCOPED_TRACE(threads);
    check_all_cases(task(), "cpu");
    check_random_cases(task(), "cpu", 50);
    check_inputs(task(), variant_of(task(), "cpu"), large);
    check_inputs(task(), variant_of(task(), "cpu"), whole);
  }
  omp_set_num_threads(before);
}

// 40 MiB of target: stored past the caches, in long runs, short ones, and from places that are no multiple of a line.
TEST(All2allTensorRedistribute, targets_past_the_caches_are_right) {
  for (const Example& example : {Example{{1024, 641}, {4, 2}, {{0}, {1}}, {{}, {}}, Dtype::f64}, Example{{1024, 641}, {2, 16}, {{0}, {}}, {{}, {0}}, Dtype::f32}, Example{{641, 1021}, {3, 8}, {{}, {0}}, {{0}, {}}, Dtype::i64}})
    check_inputs(task(), variant_of(task(), "cpu"), input_of(example));
}

// Elements that start anywhere in a line; nothing before or after the target is touched.
TEST(All2allTensorRedistribute, buffers_may_start_anywhere) {
  const TensorMap inputs = input_of({{37, 3, 129}, {3, 2}, {{0}, {}, {1}}, {{1}, {}, {0}}, Dtype::bf16}), wanted = out_of(inputs, "reference");
  const TensorRef source = inputs.at("src_data").ref(), target = wanted.at("dst_data").ref();
  for (const std::int64_t shift : {2, 6, 34}) {
    Tensor from(Dtype::u8, {source.bytes() + 64}), to(Dtype::u8, {target.bytes() + 128});
    std::memcpy(from.data() + shift, source.data, static_cast<std::size_t>(source.bytes()));
    std::memset(to.data(), 0xCB, static_cast<std::size_t>(to.bytes()));
    TensorRefMap in = refs(inputs), out;
    in.at("src_data").data = from.data() + shift;
    out.add("dst_data", {target.dtype, target.shape, to.data() + shift});
    Tensor offsets = wanted.at("dst_offsets").clone();
    out.add("dst_offsets", offsets.ref());
    EXPECT_FALSE(call_kernel(task().contract, variant_of(task(), "cpu").kernel, in, out));
    EXPECT_EQ(std::memcmp(to.data() + shift, target.data, static_cast<std::size_t>(target.bytes())), 0) << "shift " << shift;
    EXPECT_EQ(std::to_integer<int>(to.data()[shift - 1]), 0xCB);
    EXPECT_EQ(std::to_integer<int>(to.data()[shift + target.bytes()]), 0xCB);
  }
}

TEST(All2allTensorRedistribute, rejections_name_the_place) {
  struct Place {
    const char *name, *code, *tensor;
    std::int64_t index;
  };
  for (const Place& place : {Place{"bad_shape_negative", "bad_shape", "shape", 1}, Place{"bad_shape_product", "bad_shape", "shape", 1}, Place{"bad_mesh_product_wraps", "bad_mesh", "mesh", 0},
                             Place{"bad_mesh_product", "bad_mesh", "mesh", 1}, Place{"bad_axis_target", "bad_axis", "dst_axes", 0}, Place{"duplicate_axis_of_size_1", "duplicate_axis", "src_axes", 3},
                             Place{"rank_count_long", "rank_count_mismatch", "src_offsets", -1}, Place{"shard_size_first", "shard_size_mismatch", "src_offsets", 1},
                             Place{"shard_size_last", "shard_size_mismatch", "src_offsets", 5}, Place{"shard_size_flat_split", "shard_size_mismatch", "src_offsets", 2},
                             Place{"order_shape_before_mesh", "bad_shape", "shape", 1}, Place{"order_axis_before_duplicate", "bad_axis", "dst_axes", 1},
                             Place{"order_count_before_size", "rank_count_mismatch", "src_offsets", -1}, Place{"just_2_62_elements", "shard_size_mismatch", "src_offsets", 1}}) {
    SCOPED_TRACE(place.name);
    const auto found = std::ranges::find(task().cases, place.name, &Case::name);
    ASSERT_NE(found, task().cases.end());
    Random random(1);
    const TensorMap inputs = found->inputs(random);
    const auto expect_place = [&](const Rejected& rejected) {
      ASSERT_TRUE(rejected);
      EXPECT_EQ(rejected->code, place.code);
      EXPECT_EQ(rejected->tensor, place.tensor);
      EXPECT_EQ(rejected->index, place.index) << rejected->message;
    };
    expect_place(task().contract.validate(refs(inputs)));
    for (const char* variant : {"reference", "baseline", "cpu"}) {
      TensorMap outputs = allocate_outputs(task().contract, refs(inputs));
      TensorRefMap output_refs = refs(outputs);
      expect_place(call_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs), output_refs));
    }
  }
}

TEST(All2allTensorRedistribute, the_gate_lets_no_wrong_answer_through) {
  const Generator& part = task().find_workload("smoke")->parts[0];
  Random random(3), other(4);
  const TensorMap inputs = part(random), earlier = part(other), right = out_of(inputs);
  const auto wrong = [&](const TensorMap& outputs) { return task().gate.check({refs(inputs), refs(outputs), refs(right), {}}).has_value(); };
  EXPECT_FALSE(wrong(out_of(inputs)));
  EXPECT_TRUE(wrong(allocate_outputs(task().contract, refs(inputs)))) << "zeros";
  EXPECT_TRUE(wrong(out_of(earlier))) << "the answer to another call";
  TensorMap copy = clone(right);
  std::memcpy(copy.at("dst_data").data(), inputs.at("src_data").data(), static_cast<std::size_t>(std::min(copy.at("dst_data").bytes(), inputs.at("src_data").bytes())));
  EXPECT_TRUE(wrong(copy)) << "a copy of an input";
  TensorMap swapped = clone(right);
  std::swap(swapped.at("dst_data").flat<float>()[3], swapped.at("dst_data").flat<float>()[40]);
  EXPECT_TRUE(wrong(swapped)) << "two elements swapped";
  TensorMap late = clone(right);
  late.at("dst_offsets").flat<std::int64_t>()[1] += 1;
  EXPECT_TRUE(wrong(late)) << "another offset";
}

TEST(All2allTensorRedistribute, the_floor_is_each_target_element_read_and_written_once) {
  EXPECT_DOUBLE_EQ(task().floor(refs(input_of({{8, 6}, {2, 3}, {{0}, {1}}, {{1}, {}}}))).bytes, 2.0 * 4 * 8 * 6 * 2);  // axis 0 replicates
  EXPECT_DOUBLE_EQ(task().floor(refs(input_of({{0, 6}, {2, 3}, {{0}, {1}}, {{1}, {}}}))).bytes, 0.0);
}

}  // namespace
}  // namespace faibench
