// Sum over tensor-parallel ranks, plus bias: the signatures that all variants share.
#pragma once
#include "task/task.h"
#include "tensor/view.h"

namespace faibench::tp_allreduce_bias_fuse {

/// out[m, n] = round((sum over p of partials[p, m, n]) + bias[n]), T one of float, f16, bf16.
///   partials [P, M, N]  partial result of each rank; any values
///   bias [N]            added once
///   out [M, N]          the sum, rounded once to nearest even
/// Accumulates in f32 (the reference in f64). Checked before the call: P >= 1. M and N may be 0.
/// Moves at least ((P+1)*M*N + N)*sizeof(T) bytes. Thread-safe; out may not alias an input.
namespace reference { template <class T> void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out); }
namespace baseline { template <class T> void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out); }
/// Ascending p in f32, bias last: the same bits for any thread count and instruction set. A NaN result is the one quiet NaN with no payload.
namespace cpu { template <class T> void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out); }

/// The multi-rank form, rank p holding partial = partials[p] and the whole bias: every rank ends with the whole out. Every rank returns rank_mismatch when M, N, dtype
/// or the bytes of bias differ between any two of them.
/// Straightforward: cast to f32, all-reduce, bias, cast.
Rejected run_mpi_baseline(MultiRank::Call& call);
/// Elements as they are, added once where they belong. In one node, in the order of `cpu` and to its bits; over several nodes by node first, unless deterministic.
Rejected run_mpi(MultiRank::Call& call);
Rejected run_mpi_deterministic(MultiRank::Call& call);
/// The same by messages alone, over any transport.
Rejected run_messages(MultiRank::Call& call);
/// Partials and outputs lie in memory that the ranks of the node share: each piece is added from all partials into all outputs at once.
Rejected run_mpi_registered(MultiRank::Call& call);

/// The contract's own gate, from the inputs alone.
GateResult check_out(const TensorRefMap& inputs, const TensorRef& out);
/// Equal bits; `what` says between which two runs or ranks.
GateResult check_same_bits(const TensorRef& out, const TensorRef& again, const std::string& what);

}  // namespace faibench::tp_allreduce_bias_fuse
