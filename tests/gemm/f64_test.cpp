// The product in f64 against plain triple loops: every instruction set, panel edge, depth, layout, element type, split into terms and thread count.
#include "gemm/f64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/machine_setting.h"
#include "tensor/random.h"

namespace faibench::gemm {
namespace {

using testing_support::under_every_instruction_set;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// One term's operands. b lies between elements that must never be read as its own.
struct Operands {
  std::int64_t k;
  std::vector<double> a, a_size;  ///< (M, k); sizes that are not |a|, as where a is a sum itself
  std::vector<float> b;           ///< (k, N)
  std::vector<float> stored;
  std::vector<f16> stored_half;
  F64Term term;

  Operands(Random& random, std::int64_t M, std::int64_t N, std::int64_t k, bool transposed = false, Dtype dtype = Dtype::f32) : k(k), a(at(M * k)), a_size(at(M * k)), b(at(k * N)) {
    std::vector<float> drawn(a.size());
    random.fill_uniform(drawn, -1, 1);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<double>(drawn[i]) / 3;  // not an f32
      a_size[i] = std::abs(a[i]) + 0.25;
    }
    random.fill_uniform(b, -1, 1);
    if (dtype == Dtype::f16)
      for (float& x : b) x = to_float(to_f16(x));
    const std::int64_t stride = (transposed ? k : N) + 3;
    stored.assign(at((transposed ? N : k) * stride), std::nanf(""));
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < N; ++j) stored[at(transposed ? j * stride + i : i * stride + j)] = b[at(i * N + j)];
    if (dtype == Dtype::f16) std::ranges::transform(stored, std::back_inserter(stored_half), to_f16);
    term = {a.data(), {dtype == Dtype::f16 ? static_cast<const void*>(stored_half.data()) : stored.data(), stride, dtype, transposed}, k, a_size.data()};
  }
};

bool close(double got, double wanted, double size) {
  if (!std::isfinite(wanted)) return std::isnan(wanted) ? std::isnan(got) : got == wanted;
  return std::abs(got - wanted) <= 1e-13 * size;  // sums of at most some hundred summands
}

/// With sums of magnitudes and without.
void expect_right(std::int64_t M, std::int64_t N, const std::vector<Operands>& all) {
  SCOPED_TRACE(testing::Message() << M << " x " << N << ", " << all.size() << " terms");
  std::vector<double> wanted(at(M * N)), wanted_sizes(at(M * N));
  for (const Operands& of : all)
    for (std::int64_t i = 0; i < M; ++i)
      for (std::int64_t j = 0; j < N; ++j)
        for (std::int64_t k = 0; k < of.k; ++k) {
          const double b = static_cast<double>(of.b[at(k * N + j)]);
          wanted[at(i * N + j)] += of.a[at(i * of.k + k)] * b;
          wanted_sizes[at(i * N + j)] += of.a_size[at(i * of.k + k)] * std::abs(b);
        }
  std::vector<F64Term> terms;
  for (const Operands& of : all) terms.push_back(of.term);
  std::vector<double> values(wanted.size(), -7.0), sizes(wanted.size(), -7.0), alone(wanted.size(), -7.0);
  multiply_f64(M, N, terms, values.data(), sizes.data());
  for (F64Term& term : terms) term.a_size = nullptr;
  multiply_f64(M, N, terms, alone.data());
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    ASSERT_PRED3(close, values[e], wanted[e], wanted_sizes[e]) << "element " << e;
    ASSERT_PRED3(close, sizes[e], wanted_sizes[e], wanted_sizes[e]) << "sum of magnitudes " << e;
    ASSERT_PRED3(close, alone[e], wanted[e], wanted_sizes[e]) << "element " << e << " without sizes";
  }
}

class ProductInF64 : public testing_support::MachineSetting {
 protected:
  Random random_{Random("gemm", "f64", 1, 0)};
};

TEST_F(ProductInF64, is_right_around_every_edge_of_rows_and_columns) {
  under_every_instruction_set([&](std::int64_t) {
    for (std::int64_t M : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31})
      for (std::int64_t N : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 49}) expect_right(M, N, {{random_, M, N, 5}});
  });
}

TEST_F(ProductInF64, is_right_around_every_block_of_k) {
  under_every_instruction_set([&](std::int64_t) {
    for (std::int64_t K : {1, 2, 255, 256, 257, 511, 512, 513, 801}) expect_right(11, 19, {{random_, 11, 19, K}});
  });
}

TEST_F(ProductInF64, takes_any_layout_and_element_type) {
  under_every_instruction_set([&](std::int64_t) {
    for (Dtype dtype : {Dtype::f32, Dtype::f16})
      for (bool transposed : {false, true})
        for (auto [M, N, K] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 37, 41}, {13, 16, 64}, {9, 35, 270}}) expect_right(M, N, {{random_, M, N, K, transposed, dtype}});
  });
}

TEST_F(ProductInF64, adds_up_terms) {
  under_every_instruction_set([&](std::int64_t) {
    for (std::int64_t k : {0, 1, 255, 256, 300})
      expect_right(9, 21, {{random_, 9, 21, k}, {random_, 9, 21, 7, true}, {random_, 9, 21, 0}, {random_, 9, 21, 33, true, Dtype::f16}});
  });
}

TEST_F(ProductInF64, gives_zeros_where_there_is_nothing_to_sum) {
  under_every_instruction_set([&](std::int64_t) {
    expect_right(9, 21, {});
    expect_right(9, 21, {{random_, 9, 21, 0}});
  });
}

TEST_F(ProductInF64, of_nothing_has_no_element) {
  under_every_instruction_set([&](std::int64_t) {
    expect_right(0, 5, {{random_, 0, 5, 3}});
    expect_right(5, 0, {{random_, 5, 0, 3, true}});
  });
}

TEST_F(ProductInF64, keeps_nan_and_infinity_in_their_row_and_column) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  under_every_instruction_set([&](std::int64_t) {
    for (bool transposed : {false, true}) {
      const std::int64_t M = 13, N = 21, K = 270, stride = transposed ? K + 3 : N + 3;
      Operands p(random_, M, N, K, transposed);
      p.a[at(12 * K + 269)] = p.a_size[at(12 * K + 269)] = HUGE_VAL;
      p.a[at(3 * K)] = p.a_size[at(3 * K)] = std::nan("");
      const auto set = [&](std::int64_t k, std::int64_t j, float x) { p.b[at(k * N + j)] = p.stored[at(transposed ? j * stride + k : k * stride + j)] = x; };
      set(269, 20, -inf);
      set(100, 1, std::nanf(""));
      set(269, 0, 0);  // 0*Inf
      expect_right(M, N, {p});
    }
  });
}

TEST_F(ProductInF64, hands_over_every_column_once_and_the_same_bits_for_any_thread_count) {
  under_every_instruction_set([&](std::int64_t) {
    const std::int64_t M = 67, N = 153, K = 301;  // enough for a team
    const Operands p(random_, M, N, K, true);
    std::vector<double> of_one;
    for (int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      std::vector<double> values(at(M * N), -7.0);
      std::vector<int> came(at(N));
      multiply_f64(M, N, {&p.term, 1}, false, [&](const F64Columns& done) {
        for (std::int64_t j = 0; j < done.columns; ++j) {
#pragma omp atomic
          ++came[at(done.column + j)];
          for (std::int64_t i = 0; i < M; ++i) values[at(i * N + done.column + j)] = done.values[i * done.pitch + j];
        }
      });
      EXPECT_EQ(std::ranges::count(came, 1), N) << threads << " threads";
      if (threads == 1) of_one = values;
      EXPECT_TRUE(values == of_one) << threads << " threads";
    }
  });
}

}  // namespace
}  // namespace faibench::gemm
