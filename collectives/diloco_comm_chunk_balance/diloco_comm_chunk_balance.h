// Tensors into chunks whose largest is as small as possible: the signatures that all variants share.
#pragma once
#include "task/task.h"
#include "tensor/view.h"

namespace faibench::diloco_comm_chunk_balance {

/// Gives every tensor a chunk, so that the most loaded chunk holds few bytes.
///   sizes [n]     bytes of each tensor, >= 0; their sum fits i64
///   chunks        P, 1 .. 2^20, may exceed n
///   chunk_of [n]  chunk of each tensor, 0 .. P-1
///   load [P]      bytes of each chunk
/// The same input gives the same plan on every run and every rank. Thread-safe. The rules are checked before the call.
/// Longest first, each to the least loaded chunk (Graham 1969).
namespace reference { void balance(View<const std::int64_t, 1> sizes, std::int32_t chunks, View<std::int32_t, 1> chunk_of, View<std::int64_t, 1> load); }
/// Round-robin.
namespace baseline { void balance(View<const std::int64_t, 1> sizes, std::int32_t chunks, View<std::int32_t, 1> chunk_of, View<std::int64_t, 1> load); }
/// Exact triples, longest first, MULTIFIT, then local search, each only while the lower bound is not met.
namespace cpu { void balance(View<const std::int64_t, 1> sizes, std::int32_t chunks, View<std::int32_t, 1> chunk_of, View<std::int64_t, 1> load); }

/// max(largest, ceil(total/P), s_P + s_{P+1} of the descending sizes): no plan's most loaded chunk holds less.
std::int64_t lower_bound(View<const std::int64_t, 1> sizes, std::int32_t chunks);

}  // namespace faibench::diloco_comm_chunk_balance
