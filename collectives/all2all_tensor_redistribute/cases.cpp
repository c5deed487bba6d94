// Fixed and random cases of the one-process form.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "collectives/all2all_tensor_redistribute/counters.h"
#include "collectives/all2all_tensor_redistribute/one_process.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using Lists = std::vector<Numbers>;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

Tensor tensor_of(const Numbers& values) { return Tensor::of({static_cast<std::int64_t>(values.size())}, values); }

Case fixed(std::string name, std::string note, Layout layout) {
  return {std::move(name), std::move(note), [layout](Random& random) { return whole_input(random, layout); }};
}

/// Both ways: a -> b and b -> a.
void add_both(std::vector<Case>& cases, const std::string& name, const std::string& note, const Layout& layout) {
  Layout back = layout;
  std::swap(back.source, back.target);
  cases.push_back(fixed(name, note, layout));
  cases.push_back(fixed(name + "_back", note + ", the other way", back));
}

/// A valid input with something done to it.
Case damaged(std::string name, std::string note, std::function<void(TensorMap& inputs)> damage) {
  return {std::move(name), std::move(note), [damage](Random& random) {
            TensorMap inputs = whole_input(random, {{4, 6}, {2, 3}, {{0}, {1}}, {{1}, {0}}});
            damage(inputs);
            return inputs;
          }};
}
Case with(std::string name, std::string note, std::string tensor, Numbers values) {
  return damaged(std::move(name), std::move(note), [=](TensorMap& inputs) { inputs.at(tensor) = tensor_of(values); });
}

void add_layouts(std::vector<Case>& cases) {
  cases.push_back(fixed("same_sharding", "a pure copy", {{9, 7}, {2, 3}, {{0}, {1}}, {{0}, {1}}}));
  cases.push_back(fixed("replicated_to_replicated", "a copy of everything on each rank", {{5, 3}, {2, 2}, {{}, {}}, {{}, {}}}));
  add_both(cases, "replicated_to_sharded", "no axis to two axes", {{8, 6}, {2, 3}, {{}, {}}, {{0}, {1}}});
  add_both(cases, "half_replicated", "replicas along another axis on each side", {{8, 6}, {2, 3}, {{0}, {}}, {{}, {1}}});
  add_both(cases, "two_axes_on_one_dim", "[0, 1] and [1, 0] are different layouts", {{24, 2}, {2, 3}, {{0, 1}, {}}, {{1, 0}, {}}});
  add_both(cases, "two_axes_on_one_dim_uneven", "nested ceil chunks differ by the order of the axes", {{11, 3}, {2, 3}, {{0, 1}, {}}, {{1, 0}, {}}});
  add_both(cases, "three_axes_on_one_dim", "deeper nesting, all axes in another order", {{29}, {2, 3, 2}, {{0, 1, 2}}, {{2, 0, 1}}});
  add_both(cases, "other_axis_of_a_dim", "sharded by axis 0 there and by axis 1 here", {{10, 4}, {2, 3}, {{0}, {}}, {{1}, {}}});
  add_both(cases, "rows_to_columns", "everybody has something for everybody", {{13, 11}, {4}, {{0}, {}}, {{}, {0}}});
  add_both(cases, "heads_to_sequence", "batch stays, sequence and heads change places", {{4, 10, 6, 5}, {2, 3}, {{0}, {1}, {}, {}}, {{0}, {}, {1}, {}}, Dtype::bf16});
  add_both(cases, "one_dim_split_twice_to_two_dims", "[0, 1] on a dim to one axis each", {{12, 10, 3}, {3, 2}, {{0, 1}, {}, {}}, {{}, {0}, {1}}});
  add_both(cases, "eight_dims_eight_axes", "the most of both", {{2, 3, 2, 1, 2, 3, 2, 2}, {2, 1, 2, 2, 1, 2, 2, 2}, {{0}, {1, 2}, {}, {3}, {4}, {5}, {6}, {7}}, {{7, 0}, {6}, {5}, {}, {}, {3, 2}, {1}, {4}}});
  add_both(cases, "mesh_of_200", "more ranks than a block of threads takes", {{41, 37}, {10, 20}, {{0}, {1}}, {{1}, {0}}});
  add_both(cases, "short_runs", "innermost pieces of one element", {{40, 16}, {16}, {{0}, {}}, {{}, {0}}, Dtype::u8});
  add_both(cases, "long_runs", "pieces of kilobytes, whole trailing dims", {{12, 40, 300}, {2, 3}, {{0, 1}, {}, {}}, {{1}, {0}, {}}});
  cases.push_back(fixed("most_ranks", "65536 ranks, all of them replicas but three", {{3}, {65536}, {{0}}, {{}}, Dtype::u8}));
  cases.push_back(fixed("many_empty_pieces", "4 pieces of one element, each with hundreds of empty ones behind it", {{4}, {4, 512}, {{0, 1}}, {{}}, Dtype::u8}));
  cases.push_back(fixed("most_ranks_on_eight_axes", "4^8 ranks", {{5, 4}, {4, 4, 4, 4, 4, 4, 4, 4}, {{7}, {6}}, {{0, 1, 2, 3}, {4, 5, 6, 7}}, Dtype::i16}));
}

void add_uneven(std::vector<Case>& cases) {
  add_both(cases, "5_over_4", "2, 2, 1, 0 and not 2, 1, 1, 1", {{5, 5}, {4}, {{0}, {}}, {{}, {0}}});
  add_both(cases, "6_over_4", "2, 2, 2, 0: the last rank's shard is empty", {{6, 5}, {4}, {{0}, {}}, {{}, {0}}});
  add_both(cases, "2_over_2x4", "nested: ranks 0 and 4 hold one element each, not 0 and 1", {{2}, {2, 4}, {{0, 1}}, {{}}});
  add_both(cases, "2_over_4x2", "the same by the other order", {{2}, {2, 4}, {{1, 0}}, {{0, 1}}});
  add_both(cases, "10_over_3x4", "nested: 4, 4, 2 of 1; flat would be 1 each", {{10, 3}, {3, 4}, {{0, 1}, {}}, {{}, {0}}});
  add_both(cases, "1_over_8", "seven empty shards", {{1, 9}, {8}, {{0}, {}}, {{}, {0}}});
  add_both(cases, "1_over_8_one_element", "one element in all", {{1, 1}, {8}, {{0}, {}}, {{}, {0}}});
  add_both(cases, "empty_pieces_and_replicas", "a replica whose piece is empty holds nothing to read", {{3, 4}, {4, 3}, {{0}, {}}, {{}, {1}}});
  add_both(cases, "empty_box_in_one_dim_only", "a box that is empty in the first dim and not in the second", {{2, 9}, {3, 2}, {{0}, {1}}, {{1}, {0}}});
  cases.push_back(fixed("zero_extent_first", "nothing to move", {{0, 5, 3}, {2, 3}, {{0}, {1}, {}}, {{}, {0}, {1}}}));
  cases.push_back(fixed("zero_extent_last", "nothing to move", {{4, 5, 0}, {2, 3}, {{0}, {}, {1}}, {{1}, {0}, {}}}));
  cases.push_back(fixed("zero_extent_beside_huge_ones", "0 elements, whatever the others are", {{huge, 0, huge, std::int64_t{1} << 62}, {3, 5}, {{0}, {}, {1}, {}}, {{1}, {}, {}, {0}}}));
  cases.push_back(fixed("scalar", "D = 0: each rank holds the one element", {{}, {2, 3}, {}, {}}));
  cases.push_back(fixed("scalar_on_one_rank", "D = 0, P = 1", {{}, {1}, {}, {}, Dtype::f64}));
  cases.push_back(fixed("one_rank", "P = 1", {{6, 7}, {1}, {{0}, {}}, {{}, {0}}}));
  cases.push_back(fixed("one_rank_on_eight_axes", "P = 1", {{6, 7}, {1, 1, 1, 1, 1, 1, 1, 1}, {{0, 3}, {7}}, {{}, {6, 5, 4}}}));
  add_both(cases, "axes_of_size_1", "they split nothing", {{6, 7}, {1, 3, 1}, {{0, 1}, {2}}, {{2}, {1, 0}}});
}

void add_dtypes(std::vector<Case>& cases) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    cases.push_back(fixed("dtype_" + std::string(name_of(dtype)), "elements of " + std::to_string(size_of(dtype)) + " bytes", {{19, 3, 23}, {3, 2}, {{1}, {}, {0}}, {{0}, {}, {1}}, dtype}));
    if (!is_float(dtype)) continue;
    cases.push_back({"nan_payloads_" + std::string(name_of(dtype)), "NaNs with payloads, signalling ones among them, and -0", [dtype](Random& random) {
                       TensorMap inputs = whole_input(random, {{16, 16}, {4}, {{0}, {}}, {{}, {0}}, dtype});
                       Tensor& data = inputs.at("src_data");
                       const std::int64_t element = size_of(dtype);
                       for (std::int64_t k = 0; k < data.size(); ++k) {
                         std::byte* const first = data.data() + k * element;
                         std::byte* const top = first + element - 2;  // sign, exponent, the highest bits of the mantissa
                         if (random.chance(0.2)) {
                           std::memset(first, 0, static_cast<std::size_t>(element));
                         } else {
                           if (dtype != Dtype::f16) top[0] |= dtype == Dtype::f64 ? std::byte{0xf0} : std::byte{0x80};
                           top[1] = dtype == Dtype::f16 ? std::byte{0x7d} : std::byte{0x7f};
                         }
                         if (random.chance(0.5)) top[1] |= std::byte{0x80};
                       }
                       return inputs;
                     }});
  }
}

void add_general_rejections(std::vector<Case>& cases) {
  for (const char* name : {"shape", "mesh", "src_axes", "src_axes_offsets", "dst_axes", "dst_axes_offsets", "src_data", "src_offsets"})
    cases.push_back(damaged("missing_" + std::string(name), "missing_tensor", [name](TensorMap& inputs) { inputs.erase(name); }));
  cases.push_back(damaged("unknown_tensor", "an input too many", [](TensorMap& inputs) { inputs.add("dst_offsets", tensor_of({0})); }));
  cases.push_back(damaged("wrong_dtype_mesh", "i32", [](TensorMap& inputs) { inputs.at("mesh") = Tensor::of<std::int32_t>({2}, {2, 3}); }));
  cases.push_back(damaged("wrong_dtype_offsets", "u64", [](TensorMap& inputs) { inputs.at("src_offsets") = Tensor(Dtype::u64, {7}); }));
  cases.push_back(damaged("wrong_rank_data", "the shards as a matrix", [](TensorMap& inputs) { inputs.at("src_data") = Tensor(Dtype::f32, {6, 4}); }));
  cases.push_back(damaged("wrong_rank_shape", "a scalar", [](TensorMap& inputs) { inputs.at("shape") = Tensor::scalar<std::int64_t>(24); }));
  cases.push_back(with("dim_mismatch_source", "offsets of the axis lists have length D+1", "src_axes_offsets", {0, 2}));
  cases.push_back(with("dim_mismatch_target", "offsets of the axis lists have length D+1", "dst_axes_offsets", {0, 1, 2, 2}));
  cases.push_back(with("dim_mismatch_empty", "no offsets at all", "dst_axes_offsets", {}));
  cases.push_back(with("bad_offsets_axes_first", "not 0 first", "src_axes_offsets", {1, 1, 2}));
  cases.push_back(with("bad_offsets_axes_falls", "a list of negative length", "dst_axes_offsets", {0, 3, 2}));
  cases.push_back(with("bad_offsets_axes_last", "one axis more than listed", "src_axes_offsets", {0, 1, 1}));
  cases.push_back(with("bad_offsets_shards_first", "not 0 first", "src_offsets", {1, 4, 8, 12, 16, 20, 24}));
  cases.push_back(with("bad_offsets_shards_falls", "a shard of negative length", "src_offsets", {0, 4, 8, 7, 16, 20, 24}));
  cases.push_back(with("bad_offsets_shards_last", "not the number of values", "src_offsets", {0, 4, 8, 12, 16, 20, 23}));
  cases.push_back(with("bad_offsets_empty", "no offsets at all", "src_offsets", {}));
}

void add_rejections(std::vector<Case>& cases) {
  cases.push_back(damaged("bad_shape_nine_dims", "D > 8", [](TensorMap& inputs) {
    inputs.at("shape") = tensor_of(Numbers(9, 1));
    inputs.at("src_axes_offsets") = tensor_of({0, 1, 2, 2, 2, 2, 2, 2, 2, 2});
    inputs.at("dst_axes_offsets") = tensor_of({0, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  }));
  cases.push_back(with("bad_shape_negative", "an extent of -1", "shape", {4, -1}));
  cases.push_back(with("bad_shape_negative_beside_zero", "0 elements, but an extent is negative", "shape", {0, -6}));
  cases.push_back(with("bad_shape_two_negative", "the product is that of the right shape", "shape", {-4, -6}));
  cases.push_back(with("bad_shape_2_62_and_more", "one element too many", "shape", {(std::int64_t{1} << 62) + 1, 1}));
  cases.push_back(with("bad_shape_product", "2^63 elements", "shape", {std::int64_t{1} << 32, std::int64_t{1} << 31}));
  cases.push_back(with("bad_shape_product_wraps", "2^64 elements, which is 0 in 64 bits", "shape", {std::int64_t{1} << 32, std::int64_t{1} << 32}));
  cases.push_back(with("just_2_62_elements", "a shape as large as allowed: its shards are not there", "shape", {std::int64_t{1} << 31, std::int64_t{1} << 31}));
  cases.push_back(with("bad_mesh_empty", "K = 0", "mesh", {}));
  cases.push_back(with("bad_mesh_nine_axes", "K > 8", "mesh", {2, 3, 1, 1, 1, 1, 1, 1, 1}));
  cases.push_back(with("bad_mesh_zero", "an axis of 0 ranks", "mesh", {2, 0}));
  cases.push_back(with("bad_mesh_negative", "6 ranks by the product", "mesh", {-2, -3}));
  cases.push_back(with("bad_mesh_65537", "one rank too many", "mesh", {65537, 1}));
  cases.push_back(with("bad_mesh_product", "65538 ranks", "mesh", {3, 21846}));
  cases.push_back(with("bad_mesh_product_wraps", "2^64 ranks, which is 0 in 64 bits", "mesh", {std::int64_t{1} << 32, std::int64_t{1} << 32}));
  cases.push_back(with("bad_axis_source", "K and more", "src_axes", {0, 2}));
  cases.push_back(with("bad_axis_negative", "-1 is no axis", "src_axes", {-1, 1}));
  cases.push_back(with("bad_axis_target", "K and more", "dst_axes", {huge, 0}));
  cases.push_back(with("duplicate_axis_source", "in two dims", "src_axes", {1, 1}));
  cases.push_back(with("duplicate_axis_target", "in two dims", "dst_axes", {0, 0}));
  cases.push_back(damaged("duplicate_axis_one_dim", "twice in one dim", [](TensorMap& inputs) {
    inputs.at("dst_axes") = tensor_of({1, 1});
    inputs.at("dst_axes_offsets") = tensor_of({0, 2, 2});
  }));
  cases.push_back(damaged("duplicate_axis_of_size_1", "an axis that splits nothing, twice", [](TensorMap& inputs) {
    inputs.at("mesh") = tensor_of({2, 3, 1});
    inputs.at("src_axes") = tensor_of({0, 2, 1, 2});
    inputs.at("src_axes_offsets") = tensor_of({0, 2, 4});
  }));
  cases.push_back(with("rank_count_short", "five shards for six ranks", "src_offsets", {0, 4, 8, 12, 16, 24}));
  cases.push_back(with("rank_count_long", "seven shards for six ranks, one empty", "src_offsets", {0, 4, 8, 12, 16, 20, 24, 24}));
  cases.push_back(with("shard_size_first", "the sum is right, shards 0 and 1 are not", "src_offsets", {0, 5, 8, 12, 16, 20, 24}));
  cases.push_back(with("shard_size_last", "the last two shards", "src_offsets", {0, 4, 8, 12, 16, 21, 24}));
  cases.push_back(damaged("shard_size_all", "each shard has an element too many", [](TensorMap& inputs) {
    inputs.at("src_data") = Tensor(Dtype::f32, {30});
    inputs.at("src_offsets") = tensor_of({0, 5, 10, 15, 20, 25, 30});
  }));
  cases.push_back(damaged("shard_size_balanced", "5 rows over 4 ranks as 2, 1, 1, 1", [](TensorMap& inputs) {
    inputs.at("shape") = tensor_of({5, 1});
    inputs.at("mesh") = tensor_of({4, 1});
    inputs.at("src_data") = Tensor(Dtype::f32, {5});
    inputs.at("src_offsets") = tensor_of({0, 2, 3, 4, 5});
  }));
  cases.push_back(damaged("shard_size_flat_split", "2 over 2x4 as if split once over 8", [](TensorMap& inputs) {
    inputs.at("shape") = tensor_of({2, 1});
    inputs.at("mesh") = tensor_of({2, 4});
    inputs.at("src_axes_offsets") = tensor_of({0, 2, 2});
    inputs.at("src_data") = Tensor(Dtype::f32, {2});
    inputs.at("src_offsets") = tensor_of({0, 1, 2, 2, 2, 2, 2, 2, 2});
  }));
  cases.push_back(damaged("shard_size_of_nothing", "an element where the shape has none", [](TensorMap& inputs) {
    inputs.at("shape") = tensor_of({0, 6});
    inputs.at("src_data") = Tensor(Dtype::f32, {1});
    inputs.at("src_offsets") = tensor_of({0, 0, 0, 0, 0, 0, 1});
  }));
  cases.push_back(damaged("order_shape_before_mesh", "both wrong: bad_shape", [](TensorMap& inputs) {
    inputs.at("shape") = tensor_of({4, -6});
    inputs.at("mesh") = tensor_of({0, 3});
  }));
  cases.push_back(damaged("order_mesh_before_axis", "both wrong: bad_mesh", [](TensorMap& inputs) {
    inputs.at("mesh") = tensor_of({0, 3});
    inputs.at("src_axes") = tensor_of({5, 6});
  }));
  cases.push_back(damaged("order_axis_before_duplicate", "src twice the same, dst outside: bad_axis", [](TensorMap& inputs) {
    inputs.at("src_axes") = tensor_of({1, 1});
    inputs.at("dst_axes") = tensor_of({0, 2});
  }));
  cases.push_back(damaged("order_duplicate_before_count", "both wrong: duplicate_axis", [](TensorMap& inputs) {
    inputs.at("dst_axes") = tensor_of({1, 1});
    inputs.at("src_offsets") = tensor_of({0, 24});
  }));
  cases.push_back(damaged("order_count_before_size", "both wrong: rank_count_mismatch", [](TensorMap& inputs) { inputs.at("src_offsets") = tensor_of({0, 5, 24}); }));
}

Lists random_lists(Random& random, std::int64_t D, std::int64_t K) {
  Lists lists(static_cast<std::size_t>(D));
  for (const std::int64_t axis : random.permutation(K))
    if (D > 0 && random.chance(0.75)) lists[static_cast<std::size_t>(random.below(D))].push_back(axis);
  return lists;
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  add_layouts(all);
  add_uneven(all);
  add_dtypes(all);
  add_general_rejections(all);
  add_rejections(all);
  return all;
}

TensorMap random_input(Random& random) {
  Layout layout;
  const std::int64_t D = random.between(0, 4), K = random.between(1, 4), longest = random.chance(0.5) ? 5 : 9;
  for (std::int64_t d = 0; d < D; ++d) layout.shape.push_back(random.chance(0.03) ? 0 : random.between(1, longest));
  for (std::int64_t a = 0; a < K; ++a) layout.mesh.push_back(random.between(1, 4));
  layout.source = random_lists(random, D, K);
  layout.target = random_lists(random, D, K);
  layout.dtype = static_cast<Dtype>(random.below(dtype_count));
  return whole_input(random, layout);
}

}  // namespace faibench::all2all_tensor_redistribute
