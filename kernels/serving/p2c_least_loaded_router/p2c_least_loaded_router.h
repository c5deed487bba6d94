// Routing by the power of two choices: the one signature of all variants.
#pragma once
#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::p2c_least_loaded_router {

/// Routes N requests, strictly in order: of a request's two candidates the one with the lower load takes it (a tie: the first), its load grows by one.
///   num_replicas         R >= 1, checked before the call
///   candidates [N, 2]    each in 0 .. R-1; the variant rejects others as bad_candidate
///   initial_loads [R]    each in 0 .. 2^62; the variant rejects others as bad_load, before it looks at the candidates
///   assignment [N]       the replica that takes each request
///   loads [R]            the loads after the whole batch
/// Nothing is written unless the whole input is valid. Outputs may not alias inputs. Thread-safe.
namespace reference {
Rejected route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads);
}
namespace baseline {
Rejected route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads);
}
namespace cpu {
Rejected route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads);
}

}  // namespace faibench::p2c_least_loaded_router
