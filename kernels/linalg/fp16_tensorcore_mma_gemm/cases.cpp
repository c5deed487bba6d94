// Inputs of fp16_tensorcore_mma_gemm and its fixed cases.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "kernels/linalg/fp16_tensorcore_mma_gemm/inputs.h"

namespace faibench::fp16_tensorcore_mma_gemm {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

TensorMap of(Tensor A, Tensor B) {
  TensorMap inputs;
  inputs.add("A", std::move(A));
  inputs.add("B", std::move(B));
  return inputs;
}

/// `values(element)` for every element, converted on all threads where there are many.
template <class Values>
Tensor made(std::int64_t rows, std::int64_t columns, Values values) {
  Tensor tensor(Dtype::f16, {rows, columns});
  f16* const out = tensor.flat<f16>().data();
#pragma omp parallel for schedule(static) if (rows * columns > 1 << 16)
  for (std::int64_t i = 0; i < rows * columns; ++i) out[i] = to_f16(values(i));
  return tensor;
}

Tensor uniform_matrix(Random& random, std::int64_t rows, std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  random.fill_uniform(values, -1, 1);
  return made(rows, columns, [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
}

Tensor normal_matrix(Random& random, std::int64_t rows, std::int64_t columns, float deviation) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  random.fill_normal(values);
  return made(rows, columns, [&](std::int64_t i) { return values[static_cast<std::size_t>(i)] * deviation; });
}

Tensor integer_matrix(Random& random, std::int64_t rows, std::int64_t columns, std::int32_t largest) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(rows * columns));
  random.fill_below(values, 2 * largest + 1);
  return made(rows, columns, [&](std::int64_t i) { return static_cast<float>(values[static_cast<std::size_t>(i)] - largest); });
}

/// Any bit pattern: infinities, NaNs and subnormals occur.
Tensor bit_matrix(Random& random, std::int64_t rows, std::int64_t columns) {
  Tensor tensor(Dtype::f16, {rows, columns});
  for (f16& x : tensor.flat<f16>()) x.bits = static_cast<std::uint16_t>(random.u32());
  return tensor;
}

// ---- values by formula ----

using Formula = std::function<float(std::int64_t row, std::int64_t column)>;

Case by_formula(std::string name, std::string note, const Sizes& s, Formula a, Formula b) {
  return {std::move(name), std::move(note), [s, a = std::move(a), b = std::move(b)](Random&) {
            return of(made(s.M, s.K, [&](std::int64_t i) { return a(i / s.K, i % s.K); }), made(s.K, s.N, [&](std::int64_t i) { return b(i / s.N, i % s.N); }));
          }};
}

float one(std::int64_t, std::int64_t) { return 1; }

/// Row i of A is `rows[i]`, zeros behind it; B is all ones: C[i, j] is the row's sum.
Case row_sums(std::string name, std::string note, std::vector<std::vector<float>> rows, std::int64_t N) {
  std::size_t K = 0;
  for (const auto& row : rows) K = std::max(K, row.size());
  const Sizes s{static_cast<std::int64_t>(rows.size()), N, static_cast<std::int64_t>(K)};
  return by_formula(
      std::move(name), std::move(note), s,
      [rows = std::move(rows)](std::int64_t i, std::int64_t k) {
        const auto& row = rows[static_cast<std::size_t>(i)];
        return k < static_cast<std::int64_t>(row.size()) ? row[static_cast<std::size_t>(k)] : 0.0f;
      },
      one);
}

/// 60000 + 60000 - 60000 - 59999 and its permutations: 59999 is no f16, so that it enters as 60000 - 1. Odd rows hold the terms `apart` columns from each other.
Case cancelling(std::string name, std::string note, std::int64_t apart) {
  static constexpr float terms[6][5] = {{60000, 60000, -60000, -60000, 1},  {60000, -60000, 60000, -60000, 1}, {1, 60000, 60000, -60000, -60000},
                                        {-60000, -60000, 60000, 60000, -1}, {60000, 60000, 1, -60000, -60000}, {-60000, 60000, -1, 60000, -60000}};
  return by_formula(
      std::move(name), std::move(note), {12, 9, 4 * apart + 5}, [apart](std::int64_t i, std::int64_t k) {
        const std::int64_t step = i % 2 ? apart : 1;
        return k % step == 0 && k / step < 5 ? terms[i / 2][k / step] : 0.0f;
      },
      one);
}

// ---- special values on top of others ----

Case changed(std::string name, std::string note, const Sizes& s, std::function<void(View<f16, 2> A, View<f16, 2> B)> change) {
  return {std::move(name), std::move(note), [s, change = std::move(change)](Random& random) {
            TensorMap inputs = uniform_inputs(random, s);
            change(inputs.at("A").view<f16, 2>(), inputs.at("B").view<f16, 2>());
            return inputs;
          }};
}

/// Columns of C that read only finite columns of B must be finite though an over-read of a row of B or A ends in an Inf.
void infinities_at_row_starts(View<f16, 2> A, View<f16, 2> B) {
  for (std::int64_t i = 1; i < A.extent(0); i += 2) A(i, 0) = to_f16(i % 4 == 1 ? inf : -inf);
  for (std::int64_t k = 0; k < B.extent(0); ++k) B(k, 0) = to_f16(inf);
}

/// The last row of A and the last column of B, and their last elements above all, are next to what a tile pads with zeros.
void infinities_at_the_edges(View<f16, 2> A, View<f16, 2> B) {
  const std::int64_t M = A.extent(0), K = A.extent(1), N = B.extent(1);
  A(M - 1, K - 1) = to_f16(inf);
  A(M - 1, 0) = to_f16(-inf);
  B(K - 1, N - 1) = to_f16(-inf);
}

void one_nan_each(View<f16, 2> A, View<f16, 2> B) {
  A(3, 5) = to_f16(nan);
  B(2, 7) = {0xfe01};  // negative, with a payload
  A(8, 0) = {0x7c01};  // signalling
}

void infinities_that_meet(View<f16, 2> A, View<f16, 2> B) {
  A(0, 1) = to_f16(inf);   // Inf alone
  A(1, 1) = to_f16(inf);   // Inf - Inf
  A(1, 2) = to_f16(-inf);
  A(2, 4) = to_f16(inf);   // times 0
  for (std::int64_t j = 0; j < B.extent(1); ++j) {
    B(1, j) = to_f16(j % 2 ? 2.0f : -2.0f);
    B(2, j) = to_f16(j % 3 ? 1.0f : -1.0f);
    B(4, j) = to_f16(j % 4 ? -3.0f : j % 8 ? -0.0f : 0.0f);
  }
  B(6, 9) = to_f16(-inf);  // a column's own
  for (std::int64_t i = 0; i < A.extent(0); ++i) A(i, 6) = to_f16(i % 2 ? 1.0f : -1.0f);
}

// ---- rejections ----

Case broken(std::string name, std::string note, std::function<void(TensorMap&)> change) {
  return {std::move(name), std::move(note), [change = std::move(change)](Random& random) {
            TensorMap inputs = uniform_inputs(random, {4, 5, 6});
            change(inputs);
            return inputs;
          }};
}

std::function<void(TensorMap&)> replaced(std::string name, Dtype dtype, Shape shape) {
  return [=](TensorMap& inputs) { inputs.at(name) = Tensor(dtype, shape); };
}

void add_rejections(std::vector<Case>& cases) {
  cases.push_back(broken("missing_A", "missing_tensor", [](TensorMap& inputs) { inputs.erase("A"); }));
  cases.push_back(broken("missing_B", "missing_tensor", [](TensorMap& inputs) { inputs.erase("B"); }));
  cases.push_back(broken("unknown_bias", "unknown_tensor", [](TensorMap& inputs) { inputs.add("bias", Tensor(Dtype::f16, {5})); }));
  cases.push_back(broken("A_is_bf16", "wrong_dtype", replaced("A", Dtype::bf16, {4, 6})));
  cases.push_back(broken("B_is_f32", "wrong_dtype", replaced("B", Dtype::f32, {6, 5})));
  cases.push_back(broken("A_is_a_vector", "wrong_rank", replaced("A", Dtype::f16, {6})));
  cases.push_back(broken("B_of_rank_3", "wrong_rank", replaced("B", Dtype::f16, {1, 6, 5})));
  cases.push_back(broken("K_mismatch", "dim_mismatch", replaced("B", Dtype::f16, {7, 5})));
  cases.push_back(broken("B_transposed", "dim_mismatch: B given as [N, K]", replaced("B", Dtype::f16, {5, 6})));
  cases.push_back(broken("K_mismatch_though_empty", "dim_mismatch, N = 0", replaced("B", Dtype::f16, {7, 0})));
  cases.push_back(broken("dtype_before_dimension", "wrong_dtype comes before dim_mismatch", replaced("B", Dtype::f64, {7, 5})));
}

}  // namespace

TensorMap uniform_inputs(Random& random, const Sizes& s) {
  Tensor A = uniform_matrix(random, s.M, s.K);
  return of(std::move(A), uniform_matrix(random, s.K, s.N));
}

TensorMap normal_inputs(Random& random, const Sizes& s) {
  Tensor A = normal_matrix(random, s.M, s.K, 1);
  return of(std::move(A), normal_matrix(random, s.K, s.N, static_cast<float>(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(s.K, 1))))));
}

TensorMap exact_inputs(Random& random, const Sizes& s) {
  const auto largest = static_cast<std::int32_t>(std::min<std::int64_t>(2047, (1 << 22) / std::max<std::int64_t>(s.K, 1)));
  Tensor A = integer_matrix(random, s.M, s.K, largest);
  return of(std::move(A), integer_matrix(random, s.K, s.N, 1));
}

TensorMap random_inputs(Random& random) {
  const auto extent = [&](std::int64_t most) { return random.chance(0.05) ? 0 : random.chance(0.3) ? 8 * random.between(1, most / 8) : random.between(1, most); };
  const Sizes s{extent(random.chance(0.3) ? 150 : 48), extent(random.chance(0.3) ? 150 : 48), extent(160)};
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool left) {
    switch (random.below(6)) {
      case 0: return uniform_matrix(random, rows, columns);
      case 1: return normal_matrix(random, rows, columns, left ? 1.0f : 0.1f);
      case 2: return normal_matrix(random, rows, columns, left ? 300.0f : 1.0f);  // some sums overflow
      case 3: return normal_matrix(random, rows, columns, left ? 0x1p-14f : 0x1p-4f);  // subnormal inputs and results
      case 4: return integer_matrix(random, rows, columns, left ? 2047 : 1);
      default: return random.chance(0.5) ? bit_matrix(random, rows, columns) : integer_matrix(random, rows, columns, left ? 40 : 300);
    }
  };
  Tensor A = matrix(s.M, s.K, true);
  TensorMap inputs = of(std::move(A), matrix(s.K, s.N, false));
  if (s.M * s.N * s.K > 0 && random.chance(0.2)) {
    const float values[] = {inf, -inf, nan, 0.5f, 65504, -0.0f};
    for (int i = 0; i < 3; ++i)
      inputs.at(random.chance(0.5) ? "A" : "B").flat<f16>()[static_cast<std::size_t>(random.below(s.K * std::min(s.M, s.N)))] = to_f16(values[random.below(6)]);
  }
  return inputs;
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  const auto sized = [&](std::string name, std::string note, const Sizes& s, TensorMap (*fill)(Random&, const Sizes&)) {
    cases.push_back({std::move(name), std::move(note), [s, fill](Random& random) { return fill(random, s); }});
  };
  sized("no_rows", "M = 0", {0, 7, 5}, uniform_inputs);
  sized("no_columns", "N = 0", {7, 0, 5}, uniform_inputs);
  sized("no_depth", "K = 0 gives zeros", {9, 11, 0}, uniform_inputs);
  sized("nothing", "M = N = K = 0", {0, 0, 0}, uniform_inputs);
  sized("one_element", "1 x 1 x 1", {1, 1, 1}, uniform_inputs);
  for (const std::int64_t K : {1, 7, 15, 17}) sized("depth_" + std::to_string(K), "less than an MMA tile, or just more", {5, 3, K}, exact_inputs);
  sized("one_row", "M = 1", {1, 67, 40}, normal_inputs);
  sized("one_column", "N = 1: rows of B of 2 bytes", {67, 1, 40}, normal_inputs);
  sized("odd_everywhere", "rows whose byte stride is 2 mod 4", {33, 35, 37}, exact_inputs);
  sized("strides_of_4_bytes", "rows that start at multiples of 4 bytes, not of 16", {18, 38, 50}, exact_inputs);
  sized("strides_of_8_bytes", "rows that start at multiples of 8 bytes, not of 16", {18, 36, 44}, exact_inputs);
  sized("depth_odd_alone", "A unaligned, B aligned", {20, 40, 33}, exact_inputs);
  sized("width_odd_alone", "A aligned, B and C unaligned", {20, 41, 32}, exact_inputs);
  sized("whole_tiles", "128 x 128 x 64", {128, 128, 64}, exact_inputs);
  sized("one_past_a_tile", "129 x 129 x 33", {129, 129, 33}, exact_inputs);
  sized("one_short_of_a_tile", "127 x 127 x 31", {127, 127, 31}, exact_inputs);
  sized("ragged_in_chunks_of_16_bytes", "136 x 136 x 40", {136, 136, 40}, normal_inputs);
  sized("deep", "more steps in k than stages, few rows", {19, 24, 520}, exact_inputs);
  sized("deep_and_tall", "more steps in k than stages, more rows than a small tile holds", {65, 24, 296}, exact_inputs);
  sized("deep_past_a_step", "K = 1001", {4, 9, 1001}, normal_inputs);
  cases.push_back(by_formula("ones_4099", "an f16 accumulator stalls at 2048; 4099 is rounded once, to 4100", {2, 5, 4099}, one, one));
  cases.push_back(by_formula("odd_sums", "many sums that are ties between two f16", {24, 40, 48}, [](std::int64_t i, std::int64_t k) { return static_cast<float>(2047 - (i + k) % 3); }, one));
  cases.push_back(cancelling("large_between_small_result", "f16 partial sums overflow, the sum is 1 or -1", 1));
  cases.push_back(cancelling("large_far_apart", "the same, terms 37 columns apart", 37));
  cases.push_back(cancelling("large_in_different_parts", "the same, 200 columns apart: a sum over k that is split must keep its parts in f32", 200));
  cases.push_back(row_sums("overflow", "[65504, 65520) rounds to 65504, from 65520 to Inf",
                           {{65504}, {65504, 8}, {65504, 15}, {65504, 15.984375f}, {65504, 16}, {65504, 16.015625f}, {65504, 32}, {65504, 65504}, {-65504, -15}, {-65504, -16}, {-65504, -1024, 1009}}, 7));
  cases.push_back(row_sums("ties", "f16 ties go to the even neighbour",
                           {{2048, 1}, {2048, 3}, {2047, 2}, {2048, 5}, {4096, 2}, {4096, 6}, {4096, 1}, {4096, 3}, {32768, 16}, {32768, 48}, {-2048, -1}, {-2048, -3}, {1024, 0.5f}, {1024, 1.5f}}, 9));
  cases.push_back(by_formula(
      "subnormals_times_large", "subnormal inputs count with their value", {11, 13, 21}, [](std::int64_t i, std::int64_t k) { return 0x1p-24f * static_cast<float>(1 + (i * 7 + k) % 1023); },
      [](std::int64_t k, std::int64_t j) { return (k + j) % 2 ? 32768.0f : -1024.0f; }));
  cases.push_back(by_formula(
      "subnormal_results", "sums below 2^-14, ties at half of 2^-24 among them", {16, 17, 6}, [](std::int64_t i, std::int64_t k) { return k == 0 ? 0x1p-12f * static_cast<float>(i) : 0x1p-24f; },
      [](std::int64_t k, std::int64_t j) { return k == 0 ? 0x1p-13f * static_cast<float>(j % 5) : 0.25f; }));
  cases.push_back(changed("infinities_at_row_starts", "an over-read of a row of A or B ends in an Inf", {33, 35, 37}, infinities_at_row_starts));
  cases.push_back(changed("infinities_at_row_starts_aligned", "the same, rows at multiples of 16 bytes", {40, 40, 40}, infinities_at_row_starts));
  cases.push_back(changed("infinities_at_the_edges", "zero padding times an Inf must not leak NaN", {17, 19, 21}, infinities_at_the_edges));
  cases.push_back(changed("infinities_at_the_edges_deep", "the same beside the last of several steps in k", {34, 130, 136}, infinities_at_the_edges));
  cases.push_back(changed("one_nan_each", "NaN in row 3 and 8 of A and column 7 of B touches these alone", {20, 21, 22}, one_nan_each));
  cases.push_back(changed("infinities_that_meet", "Inf alone, Inf - Inf, 0 * Inf", {16, 16, 16}, infinities_that_meet));
  cases.push_back({"any_bits", "random bit patterns", [](Random& random) {
                     Tensor A = bit_matrix(random, 70, 33);
                     return of(std::move(A), bit_matrix(random, 33, 50));
                   }});
  cases.push_back({"integers_past_exact", "S above 2^22: the tolerance holds, not the exact rule", [](Random& random) {
                     Tensor A = integer_matrix(random, 20, 200, 2047);
                     return of(std::move(A), integer_matrix(random, 200, 24, 2047));
                   }});
  add_rejections(cases);
  return cases;
}

}  // namespace faibench::fp16_tensorcore_mma_gemm
