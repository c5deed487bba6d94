#include "kernels/network/device_mesh_group_planner/cases.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>

namespace faibench::device_mesh_group_planner {
namespace {

constexpr std::int64_t top = std::numeric_limits<std::int64_t>::max();

std::int64_t product(const Numbers& shape) { return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()); }

Case fixed(std::string name, std::string note, Numbers shape, Numbers ids, Numbers devices) {
  return {std::move(name), std::move(note), [=](Random&) { return mesh_input(shape, ids, devices); }};
}

/// Ids in random order, all asked, in mesh order.
Case shuffled(std::string name, std::string note, Numbers shape) {
  return {std::move(name), std::move(note), [=](Random& random) {
            const Numbers ids = random.permutation(product(shape));
            return mesh_input(shape, ids, ids);
          }};
}

/// A good input whose tensors `change` removes, adds or replaces.
Case damaged(std::string name, std::function<void(TensorMap&)> change) {
  return {std::move(name), "", [=](Random&) {
            TensorMap inputs = mesh_input({2, 3}, first_ids(6), {5, 0});
            change(inputs);
            return inputs;
          }};
}

}  // namespace

Numbers first_ids(std::int64_t n) {
  Numbers ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TensorMap mesh_input(const Numbers& shape, const Numbers& ids, const Numbers& devices) {
  TensorMap inputs;
  const auto add = [&](const char* name, const Numbers& values) { inputs.add(name, Tensor::of({static_cast<std::int64_t>(values.size())}, values)); };
  add("mesh_shape", shape);
  add("mesh_ids", ids);
  add("devices", devices);
  return inputs;
}

TensorMap sparse_input(Random& random, const Numbers& shape, std::int64_t queries) {
  Numbers ids, devices;
  std::unordered_set<std::int64_t> seen;
  while (static_cast<std::int64_t>(ids.size()) < product(shape)) {
    const auto id = static_cast<std::int64_t>(random.u64() >> 2);
    if (seen.insert(id).second) ids.push_back(id);
  }
  for (std::int64_t q = 0; q < queries; ++q) devices.push_back(ids[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(ids.size())))]);
  return mesh_input(shape, ids, devices);
}

std::vector<Case> cases() {
  std::vector<Case> cases = {
      fixed("upstream_example", "4 x 4, ids in order", {4, 4}, first_ids(16), first_ids(16)),
      shuffled("one_axis", "K = 1: every list is the whole mesh, in mesh order", {13}),
      shuffled("unequal_axes", "prime and unequal sizes, ids unsorted", {2, 3, 5, 7}),
      shuffled("eight_axes", "K = 8", {2, 1, 3, 2, 1, 2, 2, 2}),
      shuffled("size_one_axes", "two axes give the same list", {1, 4, 1, 3, 1}),
      shuffled("first_axis_whole", "axis 0 of size N", {17, 1, 1}),
      shuffled("last_axis_whole", "axis K-1 of size N", {1, 1, 17}),
      shuffled("standard_shape", "small cubes, whole vectors and rests of them", {9, 8, 17}),
      shuffled("many_lists", "more output than one thread takes", {10, 11, 12}),
      fixed("one_device", "mesh 1 x 1 x 1", {1, 1, 1}, {42}, {42, 42}),
      fixed("no_query", "Q = 0", {2, 2}, {3, 1, 2, 0}, {}),
      fixed("repeats", "a device asked twice", {2, 3}, {5, 4, 3, 2, 1, 0}, {4, 4, 0, 4}),
      fixed("ids_are_no_positions", "ids start at 100", {2, 3}, {102, 100, 104, 101, 105, 103}, {100, 105, 103}),
      fixed("largest_ids", "ids near 2^63 - 1: no table by id", {2, 3}, {top, 0, top - 2, 7, top - 1, 1}, {top, top - 1, 0, 7}),
      fixed("axis_zero_asked_once", "strided groups of few queries", {19, 11}, first_ids(209), {100}),
      {"sparse_ids", "random below 2^62", [](Random& random) { return sparse_input(random, {5, 6, 7}, 50); }},
      {"colliding_ids", "ids that differ in high bits only", [](Random&) {
         Numbers ids;
         for (std::int64_t i = 0; i < 64; ++i) ids.push_back(i << 56);
         return mesh_input({8, 8}, ids, ids);
       }},
      fixed("empty_mesh", "K = 0", {}, {1}, {1}),
      fixed("too_many_axes", "K = 9", {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1}, {1}),
      fixed("too_many_axes_before_bad_axis", "two faults: the earlier row", {1, 1, 1, 1, 1, 1, 1, 1, 0}, {1}, {1}),
      fixed("bad_axis_size_zero", "", {2, 0, -1}, {1}, {1}),
      fixed("bad_axis_size_negative", "two negative sizes make a positive product", {-2, -3}, first_ids(6), {1}),
      fixed("bad_axis_before_too_large", "two faults: the earlier row", {top, top, 0}, {1}, {1}),
      fixed("mesh_too_large", "one more than 2^24", {(1 << 24) + 1}, {1}, {1}),
      fixed("mesh_too_large_overflow", "the product is 2^64", {std::int64_t{1} << 32, std::int64_t{1} << 32}, {1}, {1}),
      fixed("mesh_largest", "2^24 is allowed: the length is what is wrong", {4096, 4096}, {1}, {1}),
      fixed("size_mismatch_short", "", {2, 3}, first_ids(5), {1}),
      fixed("size_mismatch_long", "", {2, 3}, first_ids(7), {1}),
      fixed("size_mismatch_before_negative", "two faults: the earlier row", {2, 3}, {-1}, {1}),
      fixed("negative_id", "", {2, 2}, {3, 2, 1, -1}, {1}),
      fixed("negative_before_duplicate", "two faults: the earlier row, not the earlier index", {2, 2}, {3, 3, 1, -1}, {1}),
      fixed("negative_asked", "the lowest id", {2, 2}, {0, 1, 2, 3}, {1, -top - 1}),
      fixed("duplicate_id", "the second 3 comes first", {2, 3}, {3, 1, 2, 3, 2, 1}, {1}),
      fixed("duplicate_sparse", "", {2, 2}, {top, 1, 0, top}, {1}),
      fixed("duplicate_before_unknown", "two faults: the earlier row", {2, 2}, {3, 1, 2, 3}, {9}),
      fixed("unknown_device", "the last query", {2, 2}, {3, 1, 2, 0}, {0, 1, 4}),
      fixed("unknown_sparse", "", {2, 2}, {top, 1, 2, 0}, {0, top - 1}),
      damaged("missing_tensor", [](TensorMap& inputs) { inputs.erase("devices"); }),
      damaged("unknown_tensor", [](TensorMap& inputs) { inputs.add("axis", Tensor::scalar(std::int64_t{0})); }),
      damaged("wrong_dtype",
              [](TensorMap& inputs) {
                inputs.erase("devices");
                inputs.add("devices", Tensor(Dtype::i32, {2}));
              }),
      damaged("wrong_rank",
              [](TensorMap& inputs) {
                inputs.erase("mesh_ids");
                inputs.add("mesh_ids", Tensor(Dtype::i64, {2, 3}));
              }),
  };
  return cases;
}

TensorMap random_input(Random& random) {
  Numbers shape;
  for (std::int64_t k = random.between(1, 4); k > 0; --k) shape.push_back(random.between(1, 6));
  if (random.chance(0.3)) shape[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(shape.size())))] = random.between(7, 20);
  if (random.chance(0.3)) return sparse_input(random, shape, random.between(0, 40));
  Numbers ids = random.permutation(product(shape)), devices;
  const std::int64_t step = random.between(1, 6), first = random.chance(0.5) ? 0 : random.between(1, 1000);
  for (std::int64_t& id : ids) id = id * step + first;
  for (std::int64_t q = random.between(0, 40); q > 0; --q) devices.push_back(ids[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(ids.size())))]);
  return mesh_input(shape, ids, devices);
}

}  // namespace faibench::device_mesh_group_planner
