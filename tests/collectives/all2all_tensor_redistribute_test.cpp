// The one-process form: cases, random cases, case files, threads, targets past the caches, and a gate that lets nothing wrong through. And what of the multi-rank form needs no ranks.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "collectives/all2all_tensor_redistribute/counters.h"
#include "collectives/all2all_tensor_redistribute/ranks.h"
#include "kernels/task_harness.h"
#include "schedule/traffic.h"

namespace faibench {
namespace {

using namespace testing_support;
using faibench::all2all_tensor_redistribute::described_input;
using faibench::all2all_tensor_redistribute::Layout;
using faibench::all2all_tensor_redistribute::whole_input;

const Task& task() { return *find_task("all2all_tensor_redistribute"); }
const MultiRank& multi_rank() { return *task().multi_rank; }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(all2all_tensor_redistribute, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 200); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

TensorMap input_of(const Layout& layout, std::uint64_t seed = 1) {
  Random random(seed);
  return whole_input(random, layout);
}
TensorMap out_of(const TensorMap& inputs, std::string_view variant = "cpu") { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

/// The place in the global tensor of every element of dst_data, told from its bytes.
std::vector<std::int64_t> moved(const Layout& layout, std::string_view variant) {
  const TensorMap inputs = input_of(layout);
  const TensorMap order = input_of({layout.shape, {1}, std::vector<std::vector<std::int64_t>>(layout.shape.size()), std::vector<std::vector<std::int64_t>>(layout.shape.size()), layout.dtype});
  const auto pattern = order.at("src_data").flat<std::uint32_t>();
  const TensorMap outputs = out_of(inputs, variant);
  std::vector<std::int64_t> places;
  for (const std::uint32_t bits : outputs.at("dst_data").flat<std::uint32_t>()) places.push_back(std::ranges::find(pattern, bits) - pattern.begin());
  return places;
}

struct Placed {
  const char* name;
  Layout layout;
  std::vector<std::int64_t> places;    ///< of each target element in the global tensor, by hand
  std::vector<std::int64_t> offsets;
};
void PrintTo(const Placed& placed, std::ostream* os) { *os << placed.name; }
const Placed placed[] = {
    {"six_over_four_leaves_the_last_rank_empty", {{6}, {4}, {{}}, {{0}}, Dtype::u32}, {0, 1, 2, 3, 4, 5}, {0, 2, 4, 6, 6}},
    {"two_over_two_then_four_is_nested", {{2}, {2, 4}, {{}}, {{0, 1}}, Dtype::u32}, {0, 1}, {0, 1, 1, 1, 1, 2, 2, 2, 2}},
    {"two_over_four_then_two_is_nested", {{2}, {2, 4}, {{}}, {{1, 0}}, Dtype::u32}, {0, 1}, {0, 1, 2, 2, 2, 2, 2, 2, 2}},
    {"the_order_of_axes_counts", {{4}, {2, 2}, {{0, 1}}, {{1, 0}}, Dtype::u32}, {0, 2, 1, 3}, {0, 1, 2, 3, 4}},
    {"rows_become_columns", {{2, 4}, {2}, {{0}, {}}, {{}, {0}}, Dtype::u32}, {0, 1, 4, 5, 2, 3, 6, 7}, {0, 4, 8}},
    {"an_axis_in_no_list_replicates", {{2}, {2, 2}, {{1}}, {{0}}, Dtype::u32}, {0, 0, 1, 1}, {0, 1, 2, 3, 4}},
};
class ByHand : public testing::TestWithParam<Placed> {};
INSTANTIATE_TEST_SUITE_P(all2all_tensor_redistribute, ByHand, testing::ValuesIn(placed), [](const auto& i) { return std::string(i.param.name); });

TEST_P(ByHand, every_variant_moves_each_element_to_its_place) {
  for (const char* variant : {"reference", "baseline", "cpu"}) {
    EXPECT_EQ(moved(GetParam().layout, variant), GetParam().places) << variant;
    const TensorMap outputs = out_of(input_of(GetParam().layout), variant);
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
  for (const Layout& layout : {Layout{{1024, 641}, {4, 2}, {{0}, {1}}, {{}, {}}, Dtype::f64}, Layout{{1024, 641}, {2, 16}, {{0}, {}}, {{}, {0}}, Dtype::f32}, Layout{{641, 1021}, {3, 8}, {{}, {0}}, {{0}, {}}, Dtype::i64}})
    check_inputs(task(), variant_of(task(), "cpu"), input_of(layout));
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

TEST(MultiRankInput, every_rank_makes_its_own_part_of_the_one_tensor) {
  for (const Dtype dtype : {Dtype::bool_, Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::u64}) {
    const Layout layout{{5, 3, 7}, {3, 2}, {{0}, {}, {1}}, {{1}, {}, {0}}, dtype};
    Random first(3), second(3), third(4);
    const TensorMap described = described_input(first, layout), whole = whole_input(second, layout), other = described_input(third, layout);
    const auto offsets = whole.at("src_offsets").flat<std::int64_t>();
    for (int rank = 0; rank < 6; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const TensorMap shard = multi_rank().shard(described, rank, 6);
      const TensorRef& data = shard.at("src_data").ref();
      ASSERT_EQ(data.size(), offsets[r + 1] - offsets[r]);
      if (data.size() == 0) continue;
      EXPECT_EQ(std::memcmp(data.data, whole.at("src_data").data() + offsets[r] * size_of(dtype), static_cast<std::size_t>(data.bytes())), 0) << name_of(dtype) << ", rank " << rank;
      EXPECT_NE(std::memcmp(data.data, multi_rank().shard(other, rank, 6).at("src_data").data(), static_cast<std::size_t>(data.bytes())), 0) << name_of(dtype) << ": the same from another start";
    }
  }
}

TEST(MultiRankGate, refuses_a_misplaced_byte_a_short_shard_and_a_missing_one) {
  Random random(7);
  const TensorMap described = described_input(random, {{5, 3000}, {3}, {{0}, {}}, {{}, {0}}, Dtype::bf16});
  std::vector<TensorMap> outputs(3);
  for (int q = 0; q < 3; ++q) {
    const auto out = outputs[static_cast<std::size_t>(q)].add("dst_data", Tensor(Dtype::bf16, {5000})).flat<bf16>();
    for (int row = 0; row < 5; ++row) {
      const TensorMap shard = multi_rank().shard(described, row / 2, 3);
      std::ranges::copy(shard.at("src_data").flat<bf16>().subspan(static_cast<std::size_t>(row % 2 * 3000 + 1000 * q), 1000), out.begin() + 1000 * row);
    }
  }
  EXPECT_FALSE(multi_rank().gate(refs(described), outputs));
  for (const std::int64_t at : {0, 999, 2047, 9999}) {
    outputs[2].at("dst_data").data()[at] ^= std::byte{0x80};
    const GateResult bad = multi_rank().gate(refs(described), outputs);
    ASSERT_TRUE(bad) << at;
    EXPECT_EQ(bad->index, Shape{at / 2}) << to_string(*bad);
    outputs[2].at("dst_data").data()[at] ^= std::byte{0x80};
  }
  EXPECT_FALSE(multi_rank().gate(refs(described), outputs));
  std::swap(outputs[0], outputs[1]);
  EXPECT_TRUE(multi_rank().gate(refs(described), outputs));
  std::swap(outputs[0], outputs[1]);
  outputs[1].at("dst_data") = Tensor(Dtype::bf16, {4999});
  EXPECT_TRUE(multi_rank().gate(refs(described), outputs));
  outputs[1] = TensorMap();
  EXPECT_TRUE(multi_rank().gate(refs(described), outputs));
}

TEST(MultiRankStudy, has_a_sound_schedule_for_more_ranks_than_run_here) {
  for (const int ranks : {200, 1024, 65536})
    for (const std::int64_t S : {4, 1000, 1 << 20}) {
      const auto schedule = multi_rank().scaling->schedule(S, NodeMap::regular(ranks, 8));
      const int sampled[] = {0, 17, ranks / 3, ranks - 1};
      EXPECT_EQ(fault_in(*schedule, sampled).value_or(""), "") << ranks << " ranks, " << S << " bytes";
    }
}

// A bound that exceeds what a schedule reaches is none.
TEST(MultiRankStudy, bounds_no_more_than_its_own_schedule_takes) {
  const CostModel models[] = {{{1e-6, 5e-6}, {1e-10, 8e-11}}, {{2e-7, 5e-5}, {1e-10, 8e-9}}, {{1e-6, 1e-6}, {1e-9, 1e-9}}, {{0, 1e-3}, {1e-12, 1e-12}}, {{1e-6, 1e-6}, {0, 1e-9}}};
  for (const int ranks : {2, 3, 4, 6, 8, 64, 1024})
    for (const int on_node : {1, 2, 3, 4, 8, 1024}) {
      const NodeMap nodes = NodeMap::regular(ranks, on_node);
      std::vector<int> walked;  // some stand for all: a sum over fewer ranks is no longer
      for (int rank = 0; rank < ranks; rank += ranks > 64 ? 93 : 1) walked.push_back(rank);
      walked.push_back(ranks - 1);
      for (const std::int64_t S : multi_rank().scaling->sizes) {
        const auto schedule = multi_rank().scaling->schedule(S, nodes);
        const LowerBound bound = multi_rank().scaling->bound(S, ranks);
        for (const CostModel& model : models) {
          const double least = bound_seconds(bound, nodes, model), taken = predicted_seconds(*schedule, nodes, model, walked);
          EXPECT_LE(least, taken * (1 + 1e-12)) << ranks << " ranks, " << on_node << " on a node, " << S << " bytes";
          EXPECT_GT(least, 0);
        }
      }
    }
}

}  // namespace
}  // namespace faibench
