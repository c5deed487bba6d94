// Batches of compile requests: the workloads, random small ones, and fixed texts as tensors.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace faibench::compile_cache_key_canon {

/// The two input tensors for these documents.
TensorMap batch_of(const std::vector<std::string>& documents);

/// `signatures` requests that no two are equivalent, each written as `spellings` documents that are equivalent and that differ in more than white space and escapes,
/// shuffled. A quarter of the requests are near twins of another one.
TensorMap random_requests(Random& random, std::int64_t signatures, std::int64_t spellings);

}  // namespace faibench::compile_cache_key_canon
