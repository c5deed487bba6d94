#include "kernels/linalg/splitk_tall_skinny_gemm/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"

namespace faibench::splitk_tall_skinny_gemm {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

Case sized(const char* name, const char* note, std::int64_t M, std::int64_t N, std::int64_t K) {
  return {name, note, [M, N, K](Random& random) { return uniform(random, M, N, K); }};
}
Case integers(const char* name, const char* note, std::int64_t M, std::int64_t N, std::int64_t K) {
  return {name, note, [M, N, K](Random& random) { return exact(random, M, N, K); }};
}

/// Uniform values but for what `change(A, B)` sets.
template <class Change>
Case changed(const char* name, const char* note, std::int64_t M, std::int64_t N, std::int64_t K, Change change) {
  return {name, note, [=](Random& random) {
            TensorMap in = uniform(random, M, N, K);
            change(in.at("A").view<float, 2>(), in.at("B").view<float, 2>());
            return in;
          }};
}
/// The same with all values equal at first.
template <class Change>
Case constant(const char* name, const char* note, std::int64_t M, std::int64_t N, std::int64_t K, float value, Change change) {
  return changed(name, note, M, N, K, [=](View<float, 2> A, View<float, 2> B) {
    std::ranges::fill(A.flat(), value);
    std::ranges::fill(B.flat(), value);
    change(A, B);
  });
}
constexpr auto nothing = [](View<float, 2>, View<float, 2>) {};

/// Invalid: `change` damages the tensors of a 3 x 4 product over 10 terms.
template <class Change>
Case damaged(const char* name, const char* note, Change change) {
  return {name, note, [=](Random& random) {
            TensorMap in = uniform(random, 3, 4, 10);
            change(in);
            return in;
          }};
}

}  // namespace

std::vector<Case> cases() {
  return {
      sized("no_rows", "M = 0: an empty C", 0, 5, 100),
      sized("no_columns", "N = 0: an empty C", 5, 0, 100),
      sized("no_terms", "K = 0: zeros", 3, 4, 0),
      sized("nothing", "all extents 0", 0, 0, 0),
      sized("one_product", "M = N = K = 1", 1, 1, 1),
      sized("one_term", "K = 1: an outer product", 5, 7, 1),
      sized("three_terms", "fewer terms than segments or threads", 4, 3, 3),
      sized("dot_product", "M = N = 1", 1, 1, 4096),
      sized("dot_product_odd", "M = N = 1, K prime", 1, 1, 10007),
      sized("one_row", "M = 1", 1, 24, 1537),
      sized("one_column", "N = 1", 9, 1, 2053),
      sized("two_columns", "vectors along k", 5, 2, 1500),
      sized("three_columns", "vectors along k", 7, 3, 1027),
      sized("four_columns", "vectors along k", 4, 4, 2048),
      sized("tile_16", "16 x 16", 16, 16, 1024),
      sized("tile_16_one_term_more", "16 x 16, a tail of one term", 16, 16, 1025),
      sized("tile_17", "one past a tile both ways", 17, 17, 700),
      sized("tile_15", "one short of a tile both ways", 15, 15, 700),
      sized("tile_33_by_20", "tails of rows and of columns", 33, 20, 513),
      sized("tile_64", "the largest it is meant for", 64, 64, 300),
      sized("tile_65_by_63", "one past, one short", 65, 63, 129),
      sized("not_small", "100 x 90 over few terms", 100, 90, 37),
      sized("wide", "a row times a wide matrix", 1, 300, 65),
      sized("tall", "a tall matrix times a column", 300, 1, 65),
      sized("prime_terms", "K = 4099, prime: no segment divides it", 3, 5, 4099),
      integers("integers", "exact in any order", 5, 7, 3001),
      integers("integers_16", "exact in any order", 16, 16, 1040),
      integers("integers_dot", "exact in any order", 1, 1, 5003),
      integers("integers_tall", "exact in any order", 32, 1, 1003),
      constant("last_term_only", "all the weight in the last term: a lost tail is a zero", 4, 6, 2051, 0.0f,
               [](View<float, 2> A, View<float, 2> B) {
                 for (std::int64_t i = 0; i < 4; ++i) A(i, 2050) = static_cast<float>(i + 1);
                 for (std::int64_t j = 0; j < 6; ++j) B(2050, j) = static_cast<float>(j - 3);
               }),
      constant("ends_of_segments_only", "weights at 15, 31, 63, ... 2047 and around: a lost or doubled end of a segment shows", 3, 5, 2100, 0.0f,
               [](View<float, 2> A, View<float, 2> B) {
                 float weight = 1;
                 for (std::int64_t end = 16; end <= 2048; end *= 2)
                   for (std::int64_t k = end - 1; k <= end; ++k) {
                     for (std::int64_t i = 0; i < 3; ++i) A(i, k) = weight;
                     for (std::int64_t j = 0; j < 5; ++j) B(k, j) = static_cast<float>(j + 1);
                     weight += 1;
                   }
               }),
      constant("equal_terms", "0.1 * 0.1, 2^18 times: one f32 accumulator drifts", 1, 1, 1 << 18, 0.1f, nothing),
      constant("equal_terms_16", "0.1 * 0.1", 16, 16, 1500, 0.1f, nothing),
      constant("equal_terms_column", "0.1 * 0.1", 8, 1, 9000, 0.1f, nothing),
      changed("cancelling_segments", "large terms that cancel between segments: a small result, a large S", 3, 4, 4096,
              [](View<float, 2> A, View<float, 2> B) {
                for (std::int64_t k = 0; k < 2048; ++k) {
                  for (std::int64_t i = 0; i < 3; ++i) A(i, k + 2048) = -(A(i, k) *= 1000);
                  for (std::int64_t j = 0; j < 4; ++j) B(k + 2048, j) = B(k, j);
                }
              }),
      changed("cancelling_neighbours", "alternating large terms", 2, 16, 3000,
              [](View<float, 2> A, View<float, 2> B) {
                for (std::int64_t k = 0; k + 1 < 3000; k += 2) {
                  for (std::int64_t i = 0; i < 2; ++i) A(i, k + 1) = -(A(i, k) *= 1e6f);
                  for (std::int64_t j = 0; j < 16; ++j) B(k + 1, j) = B(k, j);
                }
              }),
      changed("nan_in_a_row", "touches row 2 alone", 5, 6, 1200, [](View<float, 2> A, View<float, 2>) { A(2, 7) = nan; }),
      changed("nan_and_infinity_at_the_end", "row 1 and column 3, in the last term", 4, 9, 1030,
              [](View<float, 2> A, View<float, 2> B) {
                A(1, 1029) = nan;
                B(1029, 3) = infinity;
              }),
      changed("nan_in_a_column", "touches column 4 alone", 17, 5, 600, [](View<float, 2>, View<float, 2> B) { B(599, 4) = nan; }),
      changed("infinity_in_a_dot", "M = N = 1", 1, 1, 777, [](View<float, 2> A, View<float, 2>) { A(0, 776) = -infinity; }),
      changed("infinities_that_meet", "0 * Inf and Inf - Inf are NaN", 3, 3, 100,
              [](View<float, 2> A, View<float, 2> B) {
                A(0, 5) = infinity;
                B(5, 0) = 0;
                A(1, 8) = infinity, A(1, 90) = -infinity;
                B(8, 1) = B(90, 1) = 1;
              }),
      changed("past_what_f32_holds", "S beyond 2^127 is not compared, the rest is", 3, 4, 200,
              [](View<float, 2> A, View<float, 2> B) {
                for (std::int64_t k = 0; k < 200; ++k) A(1, k) = 1e30f, B(k, 2) = 1e30f;
              }),
      constant("subnormal_sums", "products below the normal range", 2, 3, 500, 1e-21f, nothing),
      constant("subnormal_values", "elements below the normal range", 2, 20, 300, 1e-40f, [](View<float, 2>, View<float, 2> B) { std::ranges::fill(B.flat(), 1e5f); }),
      constant("negative_zeros", "0 of either sign", 3, 3, 50, -0.0f, nothing),
      damaged("missing_B", "one input", [](TensorMap& in) { in.erase("B"); }),
      damaged("extra_tensor", "an input the contract does not know", [](TensorMap& in) { in.add("C", Tensor(Dtype::f32, {3, 4})); }),
      damaged("A_is_f64", "another dtype", [](TensorMap& in) { in.at("A") = Tensor(Dtype::f64, {3, 10}); }),
      damaged("B_is_f16", "another dtype", [](TensorMap& in) { in.at("B") = Tensor(Dtype::f16, {10, 4}); }),
      damaged("A_is_a_vector", "another rank", [](TensorMap& in) { in.at("A") = Tensor(Dtype::f32, {30}); }),
      damaged("K_mismatch", "A and B disagree about K", [](TensorMap& in) { in.at("B") = Tensor(Dtype::f32, {11, 4}); }),
  };
}

}  // namespace faibench::splitk_tall_skinny_gemm
