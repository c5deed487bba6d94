// Fixed cases of the multi-rank form: ranges of all kinds, values that must stay where they are, and what ranks must reject alike.
#include <limits>

#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"

namespace faibench::splitk_tall_skinny_gemm {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

MultiRank::RankCase sized(std::string name, std::string note, std::int64_t M, std::int64_t N, std::int64_t K) {
  return {std::move(name), std::move(note), [=](Random& random, int) { return uniform(random, M, N, K); }};
}
MultiRank::RankCase integers(std::string name, std::string note, std::int64_t M, std::int64_t N, std::int64_t K) {
  return {std::move(name), std::move(note), [=](Random& random, int) { return exact(random, M, N, K); }};
}
template <class Change>
MultiRank::RankCase changed(std::string name, std::string note, std::int64_t M, std::int64_t N, std::int64_t K, Change change) {
  return {std::move(name), std::move(note), [=](Random& random, int) {
            TensorMap in = uniform(random, M, N, K);
            change(in.at("A").view<float, 2>(), in.at("B").view<float, 2>());
            return in;
          }};
}

/// The last rank alone breaks a rule.
MultiRank::RankCase broken(std::string name, std::string note, std::string code, std::function<void(TensorMap& shard)> spoil) {
  MultiRank::RankCase made = sized(std::move(name), std::move(note), 3, 4, 100);
  made.damage = [spoil = std::move(spoil)](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank == ranks - 1) spoil(shard);
  };
  made.code = [code = std::move(code)](int) { return code; };
  return made;
}
/// A disagreement needs two ranks.
MultiRank::RankCase differing(std::string name, std::string note, std::function<void(TensorMap& shard)> spoil) {
  MultiRank::RankCase made = sized(std::move(name), std::move(note), 3, 4, 100);
  made.damage = [spoil = std::move(spoil)](Random&, TensorMap& shard, int rank, int ranks) {
    if (ranks > 1 && rank == ranks - 1) spoil(shard);
  };
  made.code = [](int ranks) { return ranks > 1 ? "rank_mismatch" : ""; };
  return made;
}

}  // namespace

std::vector<MultiRank::RankCase> rank_cases() {
  return {
      sized("no_terms", "K = 0: zeros", 3, 4, 0),
      sized("no_rows", "M = 0", 0, 4, 50),
      sized("no_columns", "N = 0", 4, 0, 50),
      sized("one_term", "all ranks but the first have none", 5, 3, 1),
      sized("three_terms", "fewer than ranks", 2, 2, 3),
      sized("dot_product", "M = N = 1, K prime", 1, 1, 10007),
      sized("tile_16", "16 x 16, uneven ranges", 16, 16, 3001),
      sized("column", "N = 1", 32, 1, 1003),
      sized("many_outputs", "sums in pieces", 100, 90, 37),
      integers("integers", "exact in any order", 5, 7, 20011),
      integers("integers_16", "exact in any order", 16, 16, 4096),
      changed("last_term_only", "all the weight in the last term of the last rank", 3, 5, 1000,
              [](View<float, 2> A, View<float, 2>) {
                for (std::int64_t i = 0; i < 3; ++i)
                  for (std::int64_t k = 0; k < 999; ++k) A(i, k) = 0;
              }),
      changed("equal_terms", "0.1 * 0.1", 2, 3, 9000,
              [](View<float, 2> A, View<float, 2> B) {
                std::ranges::fill(A.flat(), 0.1f);
                std::ranges::fill(B.flat(), 0.1f);
              }),
      changed("cancelling_ranks", "large terms of the first half against the second's", 3, 4, 4000,
              [](View<float, 2> A, View<float, 2> B) {
                for (std::int64_t k = 0; k < 2000; ++k) {
                  for (std::int64_t i = 0; i < 3; ++i) A(i, k + 2000) = -(A(i, k) *= 1000);
                  for (std::int64_t j = 0; j < 4; ++j) B(k + 2000, j) = B(k, j);
                }
              }),
      changed("nan_and_infinity", "NaN on the first rank, infinity on the last: row 1 and column 2 alone", 4, 6, 500,
              [](View<float, 2> A, View<float, 2> B) {
                A(1, 0) = -nan;
                B(499, 2) = infinity;
              }),
      changed("infinities_that_meet", "Inf on one rank, -Inf on another: NaN", 2, 2, 400,
              [](View<float, 2> A, View<float, 2> B) {
                A(0, 0) = infinity;
                A(0, 399) = -infinity;
                B(0, 0) = B(399, 0) = 1;
              }),
      broken("missing_B", "on one rank", "missing_tensor", [](TensorMap& shard) { shard.erase("B"); }),
      broken("A_is_f64", "on one rank", "wrong_dtype", [](TensorMap& shard) { shard.at("A") = Tensor(Dtype::f64, shard.at("A").shape()); }),
      broken("K_mismatch", "on one rank", "dim_mismatch", [](TensorMap& shard) { shard.at("B") = Tensor(Dtype::f32, {shard.at("B").shape()[0] + 1, 4}); }),
      differing("other_M", "one rank has a row more", [](TensorMap& shard) { shard.at("A") = Tensor(Dtype::f32, {4, shard.at("A").shape()[1]}); }),
      differing("other_N", "one rank has a column less", [](TensorMap& shard) { shard.at("B") = Tensor(Dtype::f32, {shard.at("B").shape()[0], 3}); }),
      differing("other_shape", "M and N change places: as many outputs", [](TensorMap& shard) {
        const std::int64_t K = shard.at("A").shape()[1];
        shard.at("A") = Tensor(Dtype::f32, {4, K});
        shard.at("B") = Tensor(Dtype::f32, {K, 3});
      }),
  };
}

}  // namespace faibench::splitk_tall_skinny_gemm
