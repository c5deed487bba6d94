// What ranks must have in common before they move anything.
#pragma once
#include "communicator/communicator.h"
#include "task/task.h"

namespace faibench::tp_allreduce_bias_fuse {

/// How ranks entered the call. The same on all of them, but for the board's slots.
struct Entered {
  Rejected rejected;        ///< rank_mismatch where M, N, dtype or the bytes of bias differ between any two ranks
  bool registered = false;  ///< all came with true
  Board* board = nullptr;   ///< where the entries went; null: by a reduction
};

inline constexpr std::int64_t entry_bytes = 64;
/// One small exchange between all ranks, after which all have entered the call. On one node over the board, if there is one: then the first `posted_bytes` of `partial` follow
/// each rank's entry in its slot, and where its buffers lie is in it.
Entered enter(Communicator& communicator, const TensorRef& partial, const TensorRef& bias, const void* out, bool registered, std::int64_t posted_bytes);

struct Addresses { const void *partial, *out; };
/// In the memory of `rank`. After enter(), until the next post.
Addresses posted_addresses(const Board& board, int rank);

}  // namespace faibench::tp_allreduce_bias_fuse
