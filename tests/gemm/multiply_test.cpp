// The product against plain loops in f64: every instruction set, tile edge, layout, element type, split into terms, memory limit and thread count.
#include "gemm/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "tensor/random.h"

namespace faibench::gemm {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// An operand with elements of its own, between others that must never be read as its elements.
struct Stored {
  std::vector<float> values;  ///< (rows, columns)
  std::vector<float> f32;
  std::vector<f16> half;
  std::int64_t rows, columns;
  Matrix matrix;

  Stored(Random& random, std::int64_t rows, std::int64_t columns, bool transposed = false, Dtype dtype = Dtype::f32, std::int64_t gap = 0) : rows(rows), columns(columns) {
    values.resize(static_cast<std::size_t>(rows * columns));
    random.fill_uniform(values, -1, 1);
    if (dtype == Dtype::f16)
      for (float& x : values) x = to_float(to_f16(x));
    store(transposed, dtype, gap);
  }
  void store(bool transposed, Dtype dtype, std::int64_t gap) {
    const std::int64_t stored_rows = transposed ? columns : rows, stride = (transposed ? rows : columns) + gap;
    f32.assign(static_cast<std::size_t>(stored_rows * stride), std::nanf(""));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) f32[static_cast<std::size_t>(transposed ? j * stride + i : i * stride + j)] = values[static_cast<std::size_t>(i * columns + j)];
    if (dtype == Dtype::f16)
      for (float x : f32) half.push_back(to_f16(x));
    matrix = {dtype == Dtype::f16 ? static_cast<const void*>(half.data()) : f32.data(), stride, dtype, transposed};
  }
};

struct Pair {
  Stored a, b;
};

/// Runs the product and compares with f64; every element must come exactly once, nothing else may be written.
void expect_right(std::int64_t M, std::int64_t N, const std::vector<Pair>& pairs, Workspace& workspace) {
  std::vector<Term> terms;
  for (const Pair& p : pairs) terms.push_back({p.a.matrix, p.b.matrix, p.a.columns});
  std::vector<float> product(static_cast<std::size_t>(M * N), -7.0f);
  std::vector<int> seen(static_cast<std::size_t>(M * N));
  multiply(M, N, terms, [&](const Tile& t) {
    for (std::int64_t i = 0; i < t.rows; ++i)
      for (std::int64_t j = 0; j < t.columns; ++j) {
        const auto at = static_cast<std::size_t>((t.row + i) * N + t.column + j);
        product.at(at) = t.values[i * t.pitch + j];
        ++seen.at(at);
      }
  }, workspace);
  EXPECT_LE(workspace.bytes(), workspace.limit());
  int wrong = 0;
  double K = 8;
  for (const Pair& p : pairs) K += static_cast<double>(p.a.columns);
  std::vector<double> sums(static_cast<std::size_t>(N)), sizes(static_cast<std::size_t>(N));
  for (std::int64_t i = 0; i < M && wrong < 3; ++i) {
    sums.assign(sums.size(), 0.0);
    sizes.assign(sizes.size(), 0.0);
    for (const Pair& p : pairs)
      for (std::int64_t k = 0; k < p.a.columns; ++k) {
        const double factor = static_cast<double>(p.a.values[static_cast<std::size_t>(i * p.a.columns + k)]);
        const float* row = p.b.values.data() + k * N;
        for (std::size_t j = 0; j < sums.size(); ++j) {
          sums[j] += factor * static_cast<double>(row[j]);
          sizes[j] += std::abs(factor * static_cast<double>(row[j]));
        }
      }
    for (std::size_t j = 0; j < sums.size() && wrong < 3; ++j) {
      const auto at = static_cast<std::size_t>(i * N) + j;
      const double got = static_cast<double>(product[at]);
      const bool right = std::isfinite(sums[j]) ? std::abs(got - sums[j]) <= K * 0x1p-24 * sizes[j] : std::isnan(sums[j]) ? std::isnan(got) : got == sums[j];
      if (right && seen[at] == 1) continue;
      ++wrong;
      ADD_FAILURE() << M << " x " << N << ": element (" << i << ", " << j << ") is " << got << ", came " << seen[at] << " times; wanted " << sums[j];
    }
  }
}

/// Runs each test on every instruction set of this machine.
class EveryInstructionSet : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "not on this machine";
    use_targets(GetParam());
  }
  void TearDown() override {
    use_targets(0);
    omp_set_num_threads(threads_);
  }
  static void use_targets(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  Random random_{Random("gemm", "test", 1, 0)};
  Workspace workspace_;

 private:
  int threads_ = omp_get_max_threads();
};
INSTANTIATE_TEST_SUITE_P(gemm, EveryInstructionSet, testing::Values(HWY_AVX3, HWY_AVX2, HWY_SCALAR), [](const auto& i) { return std::string(hwy::TargetName(i.param)); });

TEST_P(EveryInstructionSet, is_right_around_every_tile_edge) {
  for (std::int64_t M : {41, 42, 43, 55, 56, 57, 71, 85})
    for (std::int64_t N : {1, 3, 8, 15, 16, 17, 31, 32, 33, 48, 49, 65})
      for (std::int64_t K : {1, 4, 7}) expect_right(M, N, {{{random_, M, K}, {random_, K, N}}}, workspace_);
}

TEST_P(EveryInstructionSet, is_right_for_every_few_rows) {
  for (std::int64_t M = 1; M <= 40; ++M)
    for (std::int64_t N : {1, 4, 7, 16, 33, 64, 75, 130})
      for (std::int64_t K : {1, 32, 53}) {
        expect_right(M, N, {{{random_, M, K}, {random_, K, N}}}, workspace_);
        expect_right(M, N, {{{random_, M, K}, {random_, K, N, true}}}, workspace_);
      }
}

TEST_P(EveryInstructionSet, is_right_for_few_rows_and_long_sums) {
  for (auto [M, N, K] : {std::array<std::int64_t, 3>{1, 40, 60000}, {32, 70, 3000}, {9, 3000, 50}})
    for (bool transposed : {false, true}) expect_right(M, N, {{{random_, M, K}, {random_, K, N, transposed}}}, workspace_);
}

TEST_P(EveryInstructionSet, is_right_around_every_block_of_k) {
  for (std::int64_t K : {2, 3, 5, 15, 16, 17, 127, 128, 129, 351, 352, 353, 400, 703, 704, 705, 1001}) {
    expect_right(3, 50, {{{random_, 3, K}, {random_, K, 50}}}, workspace_);
    expect_right(43, 35, {{{random_, 43, K}, {random_, K, 35}}}, workspace_);
  }
}

TEST_P(EveryInstructionSet, is_right_when_cut_into_many_items) {
  expect_right(400, 70, {{{random_, 400, 9}, {random_, 9, 70}}}, workspace_);
  expect_right(47, 1100, {{{random_, 47, 270}, {random_, 270, 1100}}}, workspace_);
  expect_right(380, 600, {{{random_, 380, 31}, {random_, 31, 600}}}, workspace_);
}

TEST_P(EveryInstructionSet, takes_any_layout_and_element_type) {
  for (Dtype of_a : {Dtype::f32, Dtype::f16})
    for (Dtype of_b : {Dtype::f32, Dtype::f16})
      for (bool a_transposed : {false, true})
        for (bool b_transposed : {false, true})
          for (auto [M, N, K] : {std::array<std::int64_t, 3>{1, 1, 1}, {1, 70, 33}, {5, 33, 40}, {17, 16, 31}, {33, 65, 300}, {45, 140, 33}}) {
            SCOPED_TRACE(testing::Message() << name_of(of_a) << (a_transposed ? "^T " : " ") << name_of(of_b) << (b_transposed ? "^T" : ""));
            expect_right(M, N, {{{random_, M, K, a_transposed, of_a, 3}, {random_, K, N, b_transposed, of_b, 5}}}, workspace_);
          }
}

TEST_P(EveryInstructionSet, adds_up_terms) {
  for (std::int64_t k : {0, 1, 5, 16, 200, 352, 359})
    for (bool transposed : {false, true})
      for (std::int64_t M : {1, 9, 47})
        expect_right(M, 41, {{{random_, M, k}, {random_, k, 41, transposed}}, {{random_, M, 3}, {random_, 3, 41, transposed, Dtype::f16}}, {{random_, M, 0}, {random_, 0, 41}}, {{random_, M, 70}, {random_, 70, 41}}},
                     workspace_);
}

TEST_P(EveryInstructionSet, gives_zeros_where_there_is_nothing_to_sum) {
  expect_right(17, 40, {}, workspace_);
  expect_right(47, 40, {}, workspace_);
  expect_right(17, 40, {{{random_, 17, 0}, {random_, 0, 40}}}, workspace_);
  expect_right(47, 40, {{{random_, 47, 0}, {random_, 0, 40}}}, workspace_);
  expect_right(1, 40, {{{random_, 1, 0}, {random_, 0, 40, true}}}, workspace_);
}

TEST_P(EveryInstructionSet, is_silent_on_an_empty_product) {
  const Finish never = [](const Tile&) { ADD_FAILURE() << "there is no element"; };
  multiply(0, 5, {}, never, workspace_);
  multiply(5, 0, {}, never, workspace_);
}

TEST_P(EveryInstructionSet, keeps_nan_and_infinity_in_their_row_and_column) {
  for (bool transposed : {false, true})
    for (auto [M, N, K] : {std::array<std::int64_t, 3>{1, 37, 9}, {5, 37, 9}, {15, 33, 260}, {29, 49, 17}, {43, 17, 31}, {44, 133, 260}}) {
      Pair p{{random_, M, K}, {random_, K, N}};
      p.a.values[static_cast<std::size_t>((M / 2) * K + K - 1)] = inf;
      if (M > 3) p.a.values[static_cast<std::size_t>((M - 1) * K)] = std::nanf("");
      p.b.values[static_cast<std::size_t>((K - 1) * N + N - 1)] = -inf;
      p.b.values[static_cast<std::size_t>((K / 2) * N + 1)] = std::nanf("");
      p.b.values[static_cast<std::size_t>((K - 1) * N)] = 0;  // 0*Inf
      p.a.store(false, Dtype::f32, 1);
      p.b.store(transposed, Dtype::f32, 1);
      expect_right(M, N, {p}, workspace_);
    }
}

TEST_P(EveryInstructionSet, is_right_for_any_thread_count) {
  for (int threads : {1, 2, 3, 9}) {
    SCOPED_TRACE(threads);
    omp_set_num_threads(threads);
    for (auto [M, N, K] : {std::array<std::int64_t, 3>{1, 7000, 300}, {1, 33, 30000}, {7, 900, 300}, {100, 100, 200}, {1333, 17, 90}, {3, 3, 3}}) {
      expect_right(M, N, {{{random_, M, K}, {random_, K, N}}}, workspace_);
      expect_right(M, N, {{{random_, M, K}, {random_, K, N, true}}}, workspace_);
    }
  }
}

TEST_P(EveryInstructionSet, holds_no_more_memory_than_it_may) {
  for (std::int64_t limit : {64 << 10, 200 << 10, 1 << 20, 5 << 20})
    for (int threads : {1, 16}) {
      omp_set_num_threads(threads);
      Workspace small(limit);
      expect_right(130, 500, {{{random_, 130, 300}, {random_, 300, 500, true}}}, small);
      expect_right(1, 3000, {{{random_, 1, 300}, {random_, 300, 3000}}}, small);
    }
}

TEST_P(EveryInstructionSet, finishes_as_asked) {
  for (std::int64_t M : {31, 45}) {
    const std::int64_t N = 53, K = 20;
    const Pair p{{random_, M, K}, {random_, K, N}};
    const Term term{p.a.matrix, p.b.matrix, K};
    const auto size = static_cast<std::size_t>(M * N);
    std::vector<float> plain(size), c(size), d(size), unread(size, std::nanf(""));
    random_.fill_uniform(c, -1, 1);
    multiply(M, N, {&term, 1}, store(plain.data(), N), workspace_);
    multiply(M, N, {&term, 1}, scaled_sum(0.5f, -2.0f, c.data(), N, d.data(), N), workspace_);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(d[i], 0.5f * plain[i] + -2.0f * c[i]) << i;
    for (float beta : {0.0f, -0.0f}) {
      multiply(M, N, {&term, 1}, scaled_sum(3.0f, beta, unread.data(), N, d.data(), N), workspace_);
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(d[i], 3.0f * plain[i]) << i;
    }
    d = c;
    multiply(M, N, {&term, 1}, add_to(d.data(), N), workspace_);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(d[i], c[i] + plain[i]) << i;
    std::vector<f16> half(size);
    multiply(M, N, {&term, 1}, store_f16(half.data(), N), workspace_);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(half[i], to_f16(plain[i])) << i;
  }
}

TEST_P(EveryInstructionSet, writes_into_rows_of_any_stride) {
  const std::int64_t M = 16, N = 37, K = 3, stride = 50;
  const Pair p{{random_, M, K}, {random_, K, N}};
  const Term term{p.a.matrix, p.b.matrix, K};
  std::vector<float> d(static_cast<std::size_t>(M * stride), -7.0f);
  multiply(M, N, {&term, 1}, store(d.data(), stride), workspace_);
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = N; j < stride; ++j) ASSERT_EQ(d[static_cast<std::size_t>(i * stride + j)], -7.0f) << i << ", " << j;
}

}  // namespace
}  // namespace faibench::gemm
