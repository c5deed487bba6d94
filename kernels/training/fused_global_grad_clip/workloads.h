// Gradients as training makes them: lengths of tensors, and values.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace faibench::fused_global_grad_clip {

/// A 24-layer transformer, hidden 1024: 2 norms of 1024 a layer, and its matrices scaled by 2 / divisor (7: about 1e8 elements in all).
std::vector<std::int64_t> transformer_lengths(std::int64_t divisor);
/// 40 tensors of 1 to 5000 elements.
std::vector<std::int64_t> small_lengths(Random& random);
/// 8192 tensors: 6000 of 256 to 4096 elements, the rest of 16k to 1M; about 4e8 elements.
std::vector<std::int64_t> gpu_lengths(Random& random);
/// Inputs of one call: normal values, sigma of each tensor log-uniform from low to high.
TensorMap normal_gradients(Random& random, const std::vector<std::int64_t>& lengths, Dtype dtype, double low, double high, double max_norm);

}  // namespace faibench::fused_global_grad_clip
