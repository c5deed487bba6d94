// Redistribution of a sharded tensor: the signatures that all variants share.
#pragma once
#include "task/task.h"
#include "tensor/view.h"

namespace faibench::all2all_tensor_redistribute {

/// Moves the shards of all ranks of a mesh from the source sharding to the target sharding; T any element type, opaque.
///   shape [D], mesh [K]                      of the global tensor; of the mesh, P = product, rank = row-major index
///   src_axes [A], src_axes_offsets [D+1]     mesh axes that shard each dim, major first; each splits what the one before left into ceil chunks
///   dst_axes [B], dst_axes_offsets [D+1]     the same for the target
///   src_data [S], src_offsets [P+1]          source shards in rank order, each row-major
///   dst_data [T], dst_offsets [P+1]          the target's
/// Checked before the call: all rules but shard_size_mismatch, which the function returns before it writes anything. Outputs may not alias inputs. Thread-safe.
/// Moves 2*T*sizeof(element) bytes.
template <class T>
using Redistribute = Rejected(View<const std::int64_t, 1> shape, View<const std::int64_t, 1> mesh, View<const std::int64_t, 1> src_axes, View<const std::int64_t, 1> src_axes_offsets,
                              View<const std::int64_t, 1> dst_axes, View<const std::int64_t, 1> dst_axes_offsets, View<const T, 1> src_data, View<const std::int64_t, 1> src_offsets,
                              View<T, 1> dst_data, View<std::int64_t, 1> dst_offsets);

namespace reference { template <class T> Redistribute<T> redistribute; }
namespace baseline { template <class T> Redistribute<T> redistribute; }
namespace cpu { template <class T> Redistribute<T> redistribute; }

/// The multi-rank form: rank r holds its source shard (src_data), shape, mesh and axes; it ends with its target shard (dst_data). Rejections are the same on all ranks.
/// Straightforward: all gather everything, each keeps its box.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// Pack, the library's irregular all-to-all, unpack.
Rejected run_peer_mpi(MultiRank::Call& call);
/// Box intersections only, real partners only; straight from the owner's memory where ranks share it, else packing under the transfers.
Rejected run_mpi(MultiRank::Call& call);

/// The multi-rank form's contract, workloads, cases, gate and scaling.
MultiRank multi_rank();

}  // namespace faibench::all2all_tensor_redistribute
