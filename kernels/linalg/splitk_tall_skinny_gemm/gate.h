// The gate of splitk_tall_skinny_gemm and the inputs that several of its parts make.
#pragma once
#include "task/gate.h"
#include "tensor/random.h"

namespace faibench::splitk_tall_skinny_gemm {

/// With ref and S = |A|*|B| in f64, u = 2^-24: |C - ref| <= u*(64 + 2*sqrt(K))*S + 2^-126, and C == ref where row and column are integers and S <= 2^24. NaN where ref is NaN, the same
/// infinity where it is infinite; elements of finite data with S >= 2^127 are not compared. Reads no expected output: both products come from the inputs.
Gate gate();

/// A [M, K] and B [K, N], uniform in [-1, 1).
TensorMap uniform(Random& random, std::int64_t M, std::int64_t N, std::int64_t K);
/// The fill `exact`: integers in [-b, b], b = floor(sqrt(2^24/K)), at least 1, so that no order of f32 additions rounds. K <= 2^24.
TensorMap exact(Random& random, std::int64_t M, std::int64_t N, std::int64_t K);

}  // namespace faibench::splitk_tall_skinny_gemm
