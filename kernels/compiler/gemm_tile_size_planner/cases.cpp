// Fixed and random cases and the workloads of gemm_tile_size_planner.
#include "kernels/compiler/gemm_tile_size_planner/cases.h"

#include <utility>

namespace faibench::gemm_tile_size_planner {
namespace {

using Sizes = std::vector<std::int64_t>;

struct One {
  std::int64_t M, N, K;
  std::int32_t elem_bytes;
  Sizes tm, tn, tk;
};
using Batch = std::vector<One>;

TensorMap tensors(std::int64_t buffer_bytes, const Batch& batch) {
  const std::int64_t n = static_cast<std::int64_t>(batch.size());
  Sizes problem;
  std::vector<std::int32_t> elem_bytes;
  for (const One& one : batch) {
    problem.insert(problem.end(), {one.M, one.N, one.K});
    elem_bytes.push_back(one.elem_bytes);
  }
  TensorMap inputs;
  inputs.add("problem", Tensor::of<std::int64_t>({n, 3}, problem));
  inputs.add("elem_bytes", Tensor::of<std::int32_t>({n}, elem_bytes));
  for (const auto& [axis, list] : {std::pair{"tm", &One::tm}, std::pair{"tn", &One::tn}, std::pair{"tk", &One::tk}}) {
    Sizes candidates, offsets = {0};
    for (const One& one : batch) {
      candidates.insert(candidates.end(), (one.*list).begin(), (one.*list).end());
      offsets.push_back(static_cast<std::int64_t>(candidates.size()));
    }
    inputs.add(std::string(axis) + "_cand", Tensor::of<std::int64_t>({static_cast<std::int64_t>(candidates.size())}, candidates));
    inputs.add(std::string(axis) + "_offsets", Tensor::of<std::int64_t>({n + 1}, offsets));
  }
  inputs.add("buffer_bytes", Tensor::scalar(buffer_bytes));
  return inputs;
}

Case fixed(const char* name, const char* note, std::int64_t buffer_bytes, Batch batch) {
  return {name, note, [=](Random&) { return tensors(buffer_bytes, batch); }};
}

constexpr std::int64_t most = std::int64_t{1} << 18, no_limit = INT64_MAX;

Sizes drawn(Random& random, std::int64_t count, std::int64_t largest) {
  Sizes sizes;
  for (std::int64_t k = 0; k < count; ++k) sizes.push_back(random.between(1, largest));
  return sizes;
}

void add_plans(std::vector<Case>& cases) {
  const Sizes powers = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  cases.push_back(fixed("no_task", "n = 0", 1000, {}));
  cases.push_back(fixed("one_combination", "nothing to choose", 4 * (6 + 8 + 12), {{5, 7, 9, 4, {3}, {4}, {2}}}));
  cases.push_back(fixed("fits_to_the_byte", "the larger Tm takes all of the buffer", 2 * (64 * 8 + 8 * 32 + 64 * 32), {{256, 256, 256, 2, {32, 64}, {32}, {8}}}));
  cases.push_back(fixed("one_byte_short", "the same without the last byte: the smaller Tm", 2 * (64 * 8 + 8 * 32 + 64 * 32) - 1, {{256, 256, 256, 2, {32, 64}, {32}, {8}}}));
  cases.push_back(fixed("tile_above_the_dimension", "takes its nominal size in the buffer: 40 in place of the matrix's 10 does not fit, 12 does", 4 * (12 * 12 + 12 * 12 + 12 * 12),
                        {{10, 10, 10, 4, {12, 40}, {12, 40}, {12, 40}}}));
  cases.push_back(fixed("all_above_the_dimensions", "one tile an axis, footprint decides", no_limit, {{10, 20, 30, 4, {500, 11, 100}, {21, 70, 22}, {300, 31, 40}}}));
  cases.push_back(fixed("ragged_divisions", "34 gives 3 tiles of 100, 33 gives 4", 4 * (34 * 10 + 10 * 34 + 34 * 34), {{100, 100, 100, 4, {33, 34, 25}, {33, 34, 25}, {10}}}));
  cases.push_back(fixed("same_count_smaller_tile", "50 and 99 both give two tiles of 100: 50 leaves room for columns", 1 * (50 * 4 + 4 * 100 + 50 * 100),
                        {{100, 100, 100, 1, {99, 50, 51}, {100, 50}, {4}}}));
  cases.push_back(fixed("whole_k_or_larger_tiles", "A moves once with Tk = K against a larger Tm*Tn", 4 * 5000,
                        {{512, 512, 64, 4, powers, powers, powers}, {512, 512, 2048, 4, powers, powers, powers}, {4096, 64, 128, 4, powers, powers, powers}}));
  cases.push_back(fixed("whole_n_and_k", "B moves once too, with the smallest Tm", 4 * (2 * 64 + 64 * 64 + 2 * 64), {{1000, 64, 64, 4, {2, 4, 8}, powers, powers}}));
  cases.push_back(fixed("n_in_two_tiles_with_whole_k", "the number of column tiles does not matter then, so the smallest Tn", 4 * 3000,
                        {{2000, 100, 40, 4, {7, 20, 50, 60}, {1, 50, 99}, {40}}}));
  cases.push_back(fixed("rows_of_one", "M = 1", 4 * 2000, {{1, 3000, 500, 4, powers, powers, powers}}));
  cases.push_back(fixed("columns_of_one", "N = 1", 4 * 2000, {{3000, 1, 500, 4, powers, powers, powers}}));
  cases.push_back(fixed("depth_of_one", "K = 1: one k tile whatever Tk is", 4 * 2000, {{3000, 500, 1, 4, powers, powers, powers}}));
  cases.push_back(fixed("all_of_one", "1 x 1 x 1", 3, {{1, 1, 1, 1, {1}, {1}, {1}}}));
  cases.push_back(fixed("everything_fits", "many plans with the compulsory traffic: the least footprint", no_limit, {{64, 64, 64, 8, powers, powers, powers}}));
  cases.push_back(fixed("equal_footprints", "(8, 4) and (4, 8) tie in traffic and footprint: the smaller Tm", 1 * (8 * 2 + 2 * 4 + 32),
                        {{64, 64, 64, 1, {8, 4}, {4, 8}, {2}}}));
  cases.push_back(fixed("dimensions_of_2_18", "products near 2^58", no_limit,
                        {{most, most, most, 8, {1, 2, 512}, {1, 3}, {1}}, {most, most, most, 8, {1}, {1}, {1}}, {most, 1, most, 8, {most}, {most}, {most}}}));
  cases.push_back(fixed("largest_footprint", "3 * 2^36 elements of 8 bytes fit to the byte", 8 * 3 * (most * most), {{most, most, most, 8, {1, most}, {1, most}, {1, most}}}));
  cases.push_back(fixed("unsorted_with_repeats", "the same size several times", 2 * 4000,
                        {{777, 333, 555, 2, {40, 7, 40, 7, 99, 99, 1}, {64, 64, 3, 64}, {16, 555, 16, 2, 2}}}));
  cases.push_back(fixed("tasks_that_differ", "lists of different lengths, the offsets one after another", 1 << 14,
                        {{300, 200, 100, 4, {8}, {8, 16, 24}, {1, 100}}, {1, 1, 1, 8, {5, 1}, {2}, {3, 9, 27}}, {9999, 5, 777, 1, powers, {5}, {777, 7}}}));
  cases.push_back({"long_lists", "600 sizes an axis", [](Random& random) {
                     return tensors(50000, {{2000, 3000, 1500, 2, drawn(random, 600, 4000), drawn(random, 600, 4000), drawn(random, 600, 2000)}});
                   }});
  cases.push_back(fixed("k_just_short", "Tk = 99 of K = 100 is worth no more than Tk = 1", 4 * 3000, {{300, 300, 100, 4, powers, powers, {99, 1, 98}}}));
}

template <class Change>
Case changed(const char* name, const char* note, Change change) {  // a valid input with one thing wrong
  return {name, note, [=](Random&) {
            TensorMap inputs = tensors(1000, {{10, 20, 30, 4, {2, 3}, {4}, {5, 6}}, {40, 50, 60, 2, {7}, {8, 9}, {10}}});
            change(inputs);
            return inputs;
          }};
}

template <class T>
auto set(const char* name, std::size_t i, T value) {
  return [=](TensorMap& in) { in.at(name).flat<T>()[i] = value; };
}
auto replace(const char* name, Tensor (*make)()) {
  return [=](TensorMap& in) {
    in.erase(name);
    in.add(name, make());
  };
}

void add_rejections(std::vector<Case>& cases) {
  using i64 = std::int64_t;
  using i32 = std::int32_t;
  cases.push_back(fixed("no_fit_by_one_byte", "no_fit", 4 * (6 + 8 + 12) - 1, {{5, 7, 9, 4, {3}, {4}, {2}}}));
  cases.push_back(fixed("no_fit_in_the_last_task", "no_fit: task 2", 100,
                        {{5, 5, 5, 1, {1}, {1}, {1}}, {5, 5, 5, 1, {2, 1}, {3}, {4}}, {5, 5, 5, 8, {2}, {2}, {2, 3}}, {5, 5, 5, 8, {2}, {3}, {2, 3}}}));
  cases.push_back(fixed("no_fit_at_most_sizes", "no_fit: 2^41 bytes do not wrap around", 8 * 3 * (most * most) - 1, {{1, 1, 1, 8, {most}, {most}, {most}}}));
  cases.push_back(changed("problem_zero", "bad_problem", set<i64>("problem", 4, 0)));
  cases.push_back(changed("problem_negative", "bad_problem", set<i64>("problem", 0, -5)));
  cases.push_back(changed("problem_beyond_2_18", "bad_problem", set<i64>("problem", 5, most + 1)));
  cases.push_back(changed("three_byte_elements", "bad_elem_bytes", set<i32>("elem_bytes", 1, 3)));
  cases.push_back(changed("no_byte_elements", "bad_elem_bytes", set<i32>("elem_bytes", 0, 0)));
  cases.push_back(changed("sixteen_byte_elements", "bad_elem_bytes", set<i32>("elem_bytes", 0, 16)));
  cases.push_back(changed("negative_elements", "bad_elem_bytes", set<i32>("elem_bytes", 0, -4)));
  cases.push_back(changed("buffer_zero", "bad_buffer", set<i64>("buffer_bytes", 0, 0)));
  cases.push_back(changed("buffer_negative", "bad_buffer", set<i64>("buffer_bytes", 0, INT64_MIN)));
  cases.push_back(fixed("no_tm", "no_candidates: task 1", 1000, {{5, 5, 5, 1, {1}, {1}, {1}}, {5, 5, 5, 1, {}, {1}, {1}}}));
  cases.push_back(fixed("no_tn", "no_candidates: task 0", 1000, {{5, 5, 5, 1, {1}, {}, {1}}, {5, 5, 5, 1, {1}, {1}, {1}}}));
  cases.push_back(fixed("no_tk", "no_candidates: the last task", 1000, {{5, 5, 5, 1, {1}, {1}, {1}}, {5, 5, 5, 1, {1}, {1}, {}}}));
  cases.push_back(changed("candidate_zero", "bad_candidate", set<i64>("tn_cand", 2, 0)));
  cases.push_back(changed("candidate_negative", "bad_candidate", set<i64>("tm_cand", 1, -1)));
  cases.push_back(changed("candidate_beyond_2_18", "bad_candidate", set<i64>("tk_cand", 2, most + 1)));
  cases.push_back(changed("problem_before_elements", "bad_problem of the last task comes before bad_elem_bytes of the first", [](TensorMap& in) {
    in.at("problem").flat<i64>()[5] = 0;
    in.at("elem_bytes").flat<i32>()[0] = 7;
  }));
  cases.push_back(changed("elements_before_buffer", "bad_elem_bytes before bad_buffer", [](TensorMap& in) {
    in.at("elem_bytes").flat<i32>()[1] = 7;
    in.at("buffer_bytes").flat<i64>()[0] = -1;
  }));
  cases.push_back(changed("buffer_before_candidates", "bad_buffer before bad_candidate", [](TensorMap& in) {
    in.at("buffer_bytes").flat<i64>()[0] = -1;
    in.at("tm_cand").flat<i64>()[0] = 0;
  }));
  cases.push_back(fixed("empty_before_bad", "no_candidates of the last task comes before bad_candidate of the first", 1000,
                        {{5, 5, 5, 1, {0}, {1}, {1}}, {5, 5, 5, 1, {1}, {1}, {}}}));
  cases.push_back(fixed("bad_before_no_fit", "bad_candidate of the last task comes before no_fit of the first", 10,
                        {{5, 5, 5, 1, {100}, {1}, {1}}, {5, 5, 5, 1, {1}, {1}, {-3}}}));
  cases.push_back(changed("tm_offsets_start_at_one", "bad_offsets", set<i64>("tm_offsets", 0, 1)));
  cases.push_back(changed("tn_offsets_decrease", "bad_offsets", [](TensorMap& in) {
    in.at("tn_offsets").flat<i64>()[1] = 4;
  }));
  cases.push_back(changed("tk_offsets_end_early", "bad_offsets", set<i64>("tk_offsets", 2, 2)));
  cases.push_back(changed("offsets_before_problem", "bad_offsets comes before bad_problem", [](TensorMap& in) {
    in.at("tk_offsets").flat<i64>()[2] = 4;
    in.at("problem").flat<i64>()[0] = 0;
  }));
  cases.push_back(changed("no_tk_offsets", "missing_tensor", [](TensorMap& in) { in.erase("tk_offsets"); }));
  cases.push_back(changed("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("name", Tensor::text("x")); }));
  cases.push_back(changed("elem_bytes_is_i64", "wrong_dtype", replace("elem_bytes", [] { return Tensor::of<i64>({2}, {4, 2}); })));
  cases.push_back(changed("buffer_is_vector", "wrong_rank", replace("buffer_bytes", [] { return Tensor::of<i64>({1}, {1000}); })));
  cases.push_back(changed("problem_has_two_columns", "dim_mismatch", replace("problem", [] { return Tensor::of<i64>({2, 2}, {1, 2, 3, 4}); })));
  cases.push_back(changed("elem_bytes_is_longer", "dim_mismatch", replace("elem_bytes", [] { return Tensor::of<i32>({3}, {4, 2, 1}); })));
  cases.push_back(changed("tn_offsets_are_shorter", "dim_mismatch", replace("tn_offsets", [] { return Tensor::of<i64>({2}, {0, 3}); })));
  cases.push_back(changed("tm_offsets_are_empty", "dim_mismatch", replace("tm_offsets", [] { return Tensor::of<i64>({0}, {}); })));
}

// ---- workloads

/// Each of the sizes with probability 0.7, shuffled.
Sizes some_of(Random& random, const Sizes& sizes) {
  Sizes kept;
  while (kept.empty())
    for (const std::int64_t size : sizes)
      if (random.chance(0.7)) kept.push_back(size);
  random.shuffle(kept);
  return kept;
}

std::int32_t one_two_or_four(Random& random) {
  constexpr std::int32_t bytes[] = {1, 2, 2, 4};
  return bytes[random.below(4)];
}

TensorMap layers(Random& random, std::int64_t buffer_bytes) {
  constexpr std::int64_t rows[] = {128, 256, 512, 777, 1024, 2048, 3000, 4096, 8192, 16384};
  constexpr std::int64_t projections[][2] = {{4096, 4096},  {12288, 4096}, {11008, 4096}, {4096, 11008},  {28672, 8192}, {8192, 28672},
                                             {14336, 4096}, {4096, 14336}, {32000, 4096}, {128256, 8192}, {5120, 5120},  {1024, 8192}};
  Sizes sizes = {1, 2, 4};
  for (const std::int64_t eights : {1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512}) sizes.push_back(8 * eights);
  Batch batch(2000);
  for (One& one : batch) {
    const auto& [N, K] = projections[random.below(std::ssize(projections))];
    one = {rows[random.below(std::ssize(rows))], N, K, one_two_or_four(random), some_of(random, sizes), some_of(random, sizes), some_of(random, sizes)};
  }
  return tensors(buffer_bytes, batch);
}

Sizes short_list(Random& random) {
  Sizes sizes = drawn(random, random.between(1, 8), 300);
  sizes.push_back(random.between(1, 4));
  random.shuffle(sizes);
  return sizes;
}

TensorMap small_batch(Random& random) {
  Batch batch(20);
  for (One& one : batch)
    one = {random.between(1, 300), random.between(1, 300), random.between(1, 300), static_cast<std::int32_t>(1 << random.below(4)), short_list(random), short_list(random), short_list(random)};
  return tensors(60000, batch);
}

TensorMap long_batch(Random& random) {
  Batch batch(20);
  const auto dimension = [&] { return random.between(2000, 9000); };
  const auto list = [&] { return drawn(random, random.between(3800, 4200), 9000); };
  for (One& one : batch) one = {dimension(), dimension(), dimension(), one_two_or_four(random), list(), list(), list()};
  return tensors(3'000'000, batch);
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  add_plans(all);
  add_rejections(all);
  return all;
}

TensorMap random_case(Random& random) {
  Batch batch(static_cast<std::size_t>(random.below(13)));
  const std::int64_t largest = random.chance(0.3) ? 12 : 200;
  const auto list = [&](std::int64_t dimension) {
    Sizes sizes = drawn(random, random.between(0, 6), random.chance(0.5) ? dimension + 3 : largest);
    sizes.push_back(random.between(1, 3));
    if (random.chance(0.3)) sizes.push_back(dimension);
    random.shuffle(sizes);
    return sizes;
  };
  for (One& one : batch) {
    one = {random.between(1, largest), random.between(1, largest), random.between(1, largest), static_cast<std::int32_t>(1 << random.below(4)), {}, {}, {}};
    one.tm = list(one.M);
    one.tn = list(one.N);
    one.tk = list(one.K);
  }
  return tensors(8 * 27 + random.below(random.chance(0.5) ? 2000 : 100000), batch);  // three tiles of 3 x 3 elements of 8 bytes always fit
}

std::vector<Workload> workloads() {
  const auto standard = [](std::int64_t buffer_bytes) { return [buffer_bytes](Random& random) { return layers(random, buffer_bytes); }; };
  return {
      {"smoke", "20 tasks: M, N, K uniform 1..300, lists of 1-8 sizes uniform 1..300 and one in 1..4, element 1, 2, 4 or 8 bytes, buffer 60000", {small_batch}, 2e-6},
      {"standard", "2000 tasks: M of ten sizes 128..16384, (N, K) of twelve projections of LLM layers, 1, 2 (twice as likely) or 4 bytes, lists that keep each of 34 sizes 1..4096 with probability 0.7, "
                   "shuffled; buffer 4 MiB", {standard(4 << 20)}, 6e-4},
      {"long", "20 tasks with 3800 to 4200 candidates an axis, uniform 1..9000, dimensions 2000..9000, buffer 3,000,000", {long_batch}, 4e-4},
      {"standard_192k", "the standard batch with a buffer of 192 KiB; reported, not scored", {standard(192 << 10)}, 6e-4},
      {"standard_32m", "the standard batch with a buffer of 32 MiB; reported, not scored", {standard(32 << 20)}, 6e-4},
  };
}

}  // namespace faibench::gemm_tile_size_planner
