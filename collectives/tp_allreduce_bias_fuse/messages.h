// The form that travels in messages, over any transport.
#pragma once
#include <memory>

#include "collectives/tp_allreduce_bias_fuse/ordered_sum.h"
#include "communicator/communicator.h"
#include "schedule/schedule.h"

namespace faibench::tp_allreduce_bias_fuse {

/// How L elements of `element_bytes` are added over these nodes: below 64 KiB whole partials to all, by doubling or direct reduce-scatter and all-gather, whatever takes least over so many ranks; reduce-scatter and all-gather of the elements as they are above; over several nodes of equally many ranks
/// by node first, unless `ordered`, which keeps ascending rank everywhere.
std::unique_ptr<Schedule> message_schedule(std::int64_t L, std::int64_t element_bytes, const NodeMap& nodes, bool ordered);

/// Runs it; large vectors in parts, one adding while the next one travels. L >= 1.
template <class T>
void sum_by_messages(Communicator& communicator, const T* partial, std::int64_t L, const WrappedBias<T>& bias, T* out, bool ordered);

}  // namespace faibench::tp_allreduce_bias_fuse
