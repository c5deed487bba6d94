// Parameter lists in module order: the instances that plans are measured on.
#pragma once
#include "task/task.h"

namespace faibench::diloco_comm_chunk_balance {

/// sizes (bytes) and chunks as an input set.
TensorMap instance(std::vector<std::int64_t> sizes, std::int32_t chunks);
/// GPT-like, 2 bytes a parameter: wte, wpe, `layers` of 12 tensors, final norm.
std::vector<std::int64_t> gpt_sizes(std::int64_t layers, std::int64_t h);
/// Llama-like, 2 bytes a parameter: embedding, `layers` of 9 tensors, norm, head.
std::vector<std::int64_t> llama_sizes(std::int64_t layers, std::int64_t h);
/// `chunks` chunks of exactly 2^30 bytes, each cut in three, shuffled.
std::vector<std::int64_t> cut_in_three(Random& random, std::int32_t chunks);
std::vector<Workload> workloads();

}  // namespace faibench::diloco_comm_chunk_balance
