#include "peers/blas.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/error.h"

namespace faibench::peers {
namespace {

/// Every library of this build that this machine can load.
std::vector<Library> libraries() {
  std::vector<Library> all;
  for_each_library([&]<Library library>() { all.push_back(library); });
  return all;
}

std::vector<float> counting(std::int64_t n, int modulus) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 + 3) % modulus - modulus / 2);
  return values;
}

TEST(Blas, multiplies_row_major_operands_of_any_transposition) {
  if (libraries().empty()) GTEST_SKIP() << "none found";
  constexpr std::int64_t M = 5, N = 7, K = 11;
  const std::vector<float> a = counting(M * K, 9), b = counting(K * N, 13);
  for (Library library : libraries())
    for (bool a_transposed : {false, true})
      for (bool b_transposed : {false, true}) {
        SCOPED_TRACE(variant_name(library));
        std::vector<float> c = counting(M * N, 5);
        const std::vector<float> before = c;
        multiply(library, M, N, K, 2, {a.data(), a_transposed ? M : K, a_transposed}, {b.data(), b_transposed ? K : N, b_transposed}, -3, c.data(), N);
        for (std::int64_t i = 0; i < M; ++i)
          for (std::int64_t j = 0; j < N; ++j) {
            float sum = 0;
            for (std::int64_t k = 0; k < K; ++k) sum += a[static_cast<std::size_t>(a_transposed ? k * M + i : i * K + k)] * b[static_cast<std::size_t>(b_transposed ? j * K + k : k * N + j)];
            ASSERT_EQ(c[static_cast<std::size_t>(i * N + j)], 2 * sum - 3 * before[static_cast<std::size_t>(i * N + j)]) << i << ", " << j;
          }
      }
}

TEST(Blas, scales_where_there_is_nothing_to_multiply) {
  for (Library library : {Library::openblas, Library::blis, Library::onednn}) {
    std::vector<float> c = {1, 2, NAN, 4};
    multiply(library, 2, 2, 0, 1, {nullptr, 0}, {nullptr, 2}, 0, c.data(), 2);
    EXPECT_EQ(c, std::vector<float>(4, 0.0f));
    c = {1, 2, 3, 4};
    multiply(library, 2, 1, 0, 1, {nullptr, 0}, {nullptr, 1}, 10, c.data(), 2);
    EXPECT_EQ(c, (std::vector<float>{10, 2, 30, 4})) << "past the columns nothing changes";
    EXPECT_EQ(dot(library, 0, nullptr, nullptr), 0);
  }
}

TEST(Blas, takes_dot_products) {
  if (libraries().empty()) GTEST_SKIP() << "none found";
  const std::vector<float> x = counting(1000, 9), y = counting(1000, 13);
  float sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  for (Library library : libraries()) EXPECT_EQ(dot(library, 1000, x.data(), y.data()), sum) << variant_name(library);
}

TEST(Blas, is_right_on_any_number_of_threads) {
  if (libraries().empty()) GTEST_SKIP() << "none found";
  constexpr std::int64_t n = 130;
  const std::vector<float> a = counting(n * n, 9), b = counting(n * n, 13);
  const int before = omp_get_max_threads();
  for (Library library : libraries()) {
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2, 3}) {
      omp_set_num_threads(threads);
      std::vector<float> c(static_cast<std::size_t>(n * n), NAN);
      multiply(library, n, n, n, 1, {a.data(), n}, {b.data(), n}, 0, c.data(), n);
      results.push_back(c);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
  omp_set_num_threads(before);
}

TEST(Blas, says_what_a_build_lacks) {
  for (Library library : {Library::openblas, Library::blis, Library::onednn}) {
    if (in_build(library)) continue;
    float c = 0, one = 1;
    try {
      multiply(library, 1, 1, 1, 1, {&one, 1}, {&one, 1}, 0, &c, 1);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, Error::Kind::io);
      EXPECT_NE(std::string(error.what()).find(variant_name(library)), std::string::npos) << error.what();
    }
  }
}

TEST(Blas, refuses_dimensions_past_its_integers) {
  if (!in_build(Library::openblas)) GTEST_SKIP() << "none found";
  float c = 0;
  EXPECT_THROW(multiply(Library::openblas, std::int64_t{1} << 31, 1, 1, 1, {&c, 1}, {&c, 1}, 0, &c, 1), Error);
}

}  // namespace
}  // namespace faibench::peers
