// Fixed cases of the multi-rank form, for any number of ranks.
#include <algorithm>

#include "collectives/all2all_tensor_redistribute/ranks.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using RankCase = MultiRank::RankCase;

/// Two axes; both longer than 1 where the number of ranks allows it.
std::vector<std::int64_t> two_axes(int ranks) {
  for (int n = 2; n * n <= ranks; ++n)
    if (ranks % n == 0) return {n, ranks / n};
  return {ranks, 1};
}

template <class LayoutOf>
RankCase fixed(std::string name, std::string note, LayoutOf layout_of) {
  return {std::move(name), std::move(note), [layout_of](Random& random, int ranks) { return described_input(random, layout_of(ranks)); }};
}

/// Row shards to column shards over one axis, the shape's extents anything.
RankCase one_axis(std::string name, std::string note, std::vector<std::int64_t> shape, Dtype dtype = Dtype::f32) {
  std::vector<std::vector<std::int64_t>> source(shape.size()), target(shape.size());
  source.front() = {0};
  target.back() = {0};
  return fixed(std::move(name), std::move(note), [=](int ranks) { return Layout{shape, {ranks}, source, target, dtype}; });
}

/// [n, 2n+1] of f32 on a mesh of one axis with what `damage` does to it.
RankCase damaged(std::string name, std::string note, std::string code, int least_ranks, std::function<void(TensorMap& shard, int rank, int ranks)> damage) {
  RankCase result = one_axis(std::move(name), std::move(note), {12, 25});
  result.damage = [damage](Random&, TensorMap& shard, int rank, int ranks) { damage(shard, rank, ranks); };
  result.code = [code, least_ranks](int ranks) { return ranks >= least_ranks ? code : ""; };
  return result;
}

void cut(TensorMap& shard) {
  TensorRef less = shard.at("src_data").ref();
  less.shape[0] -= 1;
  shard.at("src_data") = Tensor::copy_of(less);
}

std::span<std::int64_t> numbers(TensorMap& shard, const char* name) { return shard.at(name).flat<std::int64_t>(); }

void add_damaged(std::vector<RankCase>& cases) {
  cases.push_back(damaged("other_shape", "the last rank has the extents swapped", "rank_mismatch", 2, [](TensorMap& shard, int rank, int ranks) {
    if (rank == ranks - 1) std::swap(numbers(shard, "shape")[0], numbers(shard, "shape")[1]);
  }));
  cases.push_back(damaged("other_mesh", "rank 0 has the mesh [1, P]; its shards are of other sizes", "rank_mismatch", 2, [](TensorMap& shard, int rank, int ranks) {
    if (rank == 0) shard.at("mesh") = Tensor::of<std::int64_t>({2}, {1, ranks});
  }));
  cases.push_back(damaged("other_source", "rank 0 has another source sharding", "rank_mismatch", 2, [](TensorMap& shard, int rank, int) {
    if (rank == 0) numbers(shard, "src_axes_offsets")[1] = 0;
  }));
  cases.push_back(damaged("other_target", "the last rank has another target sharding", "rank_mismatch", 2, [](TensorMap& shard, int rank, int ranks) {
    if (rank == ranks - 1) numbers(shard, "dst_axes_offsets")[1] = 1;
  }));
  cases.push_back(damaged("other_dtype", "the last rank has elements of another type and the same size", "rank_mismatch", 2, [](TensorMap& shard, int rank, int ranks) {
    if (rank != ranks - 1) return;
    TensorRef other = shard.at("src_data").ref();
    other.dtype = Dtype::i32;
    shard.at("src_data") = Tensor::copy_of(other);
  }));
  cases.push_back(damaged("other_mesh_and_a_short_shard", "two rules broken: the first of the table counts", "rank_mismatch", 2, [](TensorMap& shard, int rank, int ranks) {
    if (rank == 0) cut(shard);
    if (rank == ranks - 1) shard.at("mesh") = Tensor::of<std::int64_t>({1}, {ranks + 1});
  }));
  cases.push_back(damaged("too_large_a_mesh", "all ranks say there is one more", "rank_count_mismatch", 1, [](TensorMap& shard, int, int ranks) { numbers(shard, "mesh")[0] = ranks + 1; }));
  cases.push_back(damaged("too_small_a_mesh", "all ranks say there is one less", "rank_count_mismatch", 2, [](TensorMap& shard, int, int ranks) { numbers(shard, "mesh")[0] = ranks - 1; }));
  cases.push_back(damaged("short_shard", "the last rank that holds something lacks an element", "shard_size_mismatch", 1, [](TensorMap& shard, int rank, int ranks) {
    const int rows = (12 + ranks - 1) / ranks;
    if (rank == (12 + rows - 1) / rows - 1) cut(shard);
  }));
  cases.push_back(damaged("long_shard", "the last rank has elements beyond its box", "shard_size_mismatch", 1, [](TensorMap& shard, int rank, int ranks) {
    if (rank == ranks - 1) shard.at("src_data") = Tensor(Dtype::f32, {shard.at("src_data").size() + 1});
  }));
  cases.push_back(damaged("two_wrong_shards", "rank 0 has too few, the last rank too many", "shard_size_mismatch", 1, [](TensorMap& shard, int rank, int ranks) {
    if (rank == 0) cut(shard);
    else if (rank == ranks - 1) shard.at("src_data") = Tensor(Dtype::f32, {shard.at("src_data").size() + 1});
  }));
  cases.push_back(damaged("negative_extent_on_one_rank", "rank 0 alone", "bad_shape", 1, [](TensorMap& shard, int rank, int) {
    if (rank == 0) numbers(shard, "shape")[1] = -1;
  }));
  cases.push_back(damaged("empty_axis_on_one_rank", "rank 0 alone", "bad_mesh", 1, [](TensorMap& shard, int rank, int) {
    if (rank == 0) numbers(shard, "mesh")[0] = 0;
  }));
  cases.push_back(damaged("unknown_axis_on_one_rank", "the last rank alone", "bad_axis", 1, [](TensorMap& shard, int rank, int ranks) {
    if (rank == ranks - 1) numbers(shard, "dst_axes")[0] = 1;
  }));
  cases.push_back(damaged("axis_twice_on_one_rank", "the last rank alone", "duplicate_axis", 1, [](TensorMap& shard, int rank, int ranks) {
    if (rank != ranks - 1) return;
    shard.at("src_axes") = Tensor::of<std::int64_t>({2}, {0, 0});
    numbers(shard, "src_axes_offsets")[2] = 2;
  }));
}

}  // namespace

std::vector<RankCase> rank_cases() {
  std::vector<RankCase> cases;
  cases.push_back(fixed("same_sharding", "nothing crosses", [](int P) { return Layout{{13, 9}, {P}, {{0}, {}}, {{0}, {}}}; }));
  cases.push_back(fixed("replicated_to_sharded", "every rank has all that it needs", [](int P) { return Layout{{13, 9}, {P}, {{}, {}}, {{}, {0}}}; }));
  cases.push_back(fixed("sharded_to_replicated", "an all-gather", [](int P) { return Layout{{13, 9}, {P}, {{0}, {}}, {{}, {}}}; }));
  cases.push_back(fixed("columns_to_replicated", "an all-gather into strided places", [](int P) { return Layout{{13, 9}, {P}, {{}, {0}}, {{}, {}}}; }));
  cases.push_back(fixed("partly_replicated", "one axis shards, the other replicates, then the other way round", [](int P) { return Layout{{24, 10}, two_axes(P), {{0}, {}}, {{}, {1}}}; }));
  cases.push_back(fixed("replicas_supply_others", "several holders of each piece, receivers that hold none", [](int P) { return Layout{{30}, two_axes(P), {{1}}, {{0}}}; }));
  cases.push_back(fixed("two_axes_reordered", "[0, 1] and [1, 0] on one dim are different layouts", [](int P) { return Layout{{48, 3}, two_axes(P), {{0, 1}, {}}, {{1, 0}, {}}}; }));
  cases.push_back(fixed("two_axes_from_two_dims", "both dims sharded, then one by both axes", [](int P) { return Layout{{40, 21}, two_axes(P), {{0}, {1}}, {{1, 0}, {}}}; }));
  cases.push_back(fixed("axis_moves_between_dims", "sequence shards to head shards", [](int P) { return Layout{{4, 25, 6, 5}, two_axes(P), {{0}, {1}, {}, {}}, {{0}, {}, {1}, {}}, Dtype::bf16}; }));
  cases.push_back(fixed("a_dim_by_another_axis", "the same dim, sharded by one axis, then by the other", [](int P) { return Layout{{31, 4}, two_axes(P), {{0}, {}}, {{1}, {}}}; }));
  cases.push_back(one_axis("five_rows", "5 over P: short and empty pieces", {5, 11}));
  cases.push_back(one_axis("six_rows", "6 over P: 2, 2, 2, 0 over 4", {6, 6}));
  cases.push_back(one_axis("one_row", "1 over P: rank 0 holds all", {1, 17}));
  cases.push_back(one_axis("one_column", "rank 0 ends with all", {17, 1}));
  cases.push_back(fixed("two_over_nested_axes", "nested splits, not one flat one", [](int P) { return Layout{{2, 7}, two_axes(P), {{0, 1}, {}}, {{}, {1, 0}}}; }));
  cases.push_back(one_axis("an_empty_extent", "no elements, whatever the other extents are", {0, std::int64_t{1} << 40}));
  cases.push_back(fixed("scalar", "D = 0, replicated", [](int P) { return Layout{{}, {P}, {}, {}}; }));
  cases.push_back(fixed("axes_of_size_one", "mesh [1, P, 1]", [](int P) { return Layout{{9, 14}, {1, P, 1}, {{2, 1}, {0}}, {{0}, {1, 2}}}; }));
  cases.push_back(fixed("eight_dims", "D = 8, a middle dim to another", [](int P) { return Layout{{2, 1, 9, 2, 3, 7, 1, 2}, {P}, {{}, {}, {0}, {}, {}, {}, {}, {}}, {{}, {}, {}, {}, {}, {0}, {}, {}}}; }));
  cases.push_back(one_axis("bytes", "elements of 1 byte", {33, 65}, Dtype::u8));
  cases.push_back(one_axis("bool", "elements of 1 byte", {19, 23}, Dtype::bool_));
  cases.push_back(one_axis("f16", "elements of 2 bytes, NaN payloads among them", {33, 65}, Dtype::f16));
  cases.push_back(one_axis("f64", "elements of 8 bytes, three dims", {33, 5, 65}, Dtype::f64));
  cases.push_back(one_axis("i64_uneven", "elements of 8 bytes", {101, 203}, Dtype::i64));
  add_damaged(cases);
  return cases;
}

}  // namespace faibench::all2all_tensor_redistribute
