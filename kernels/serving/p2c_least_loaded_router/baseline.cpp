// The plain loop: one branch a request, one thread, validation in a pass of its own before it.
#include <algorithm>

#include "kernels/serving/p2c_least_loaded_router/p2c_least_loaded_router.h"

namespace faibench::p2c_least_loaded_router::baseline {
namespace {

Rejected check_loads(View<const std::int64_t, 1> initial_loads) {
  for (std::int64_t r = 0; r < initial_loads.extent(0); ++r) {
    const std::int64_t load = initial_loads[r];
    if (load < 0 || load > (std::int64_t{1} << 62)) return reject("bad_load", "initial_loads", r, std::to_string(load), "a load lies in 0 .. 2^62");
  }
  return std::nullopt;
}

Rejected check_candidates(std::int32_t num_replicas, std::span<const std::int32_t> candidates) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::int32_t candidate = candidates[i];
    if (candidate < 0 || candidate >= num_replicas)
      return reject("bad_candidate", "candidates", static_cast<std::int64_t>(i), std::to_string(candidate), "a candidate lies in 0 .. num_replicas-1 = " + std::to_string(num_replicas - 1));
  }
  return std::nullopt;
}

}  // namespace

Rejected route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads) {
  if (Rejected rejected = check_loads(initial_loads)) return rejected;
  if (Rejected rejected = check_candidates(num_replicas, candidates.flat())) return rejected;
  std::copy_n(initial_loads.data(), initial_loads.extent(0), loads.data());
  for (std::int64_t i = 0; i < candidates.extent(0); ++i) {
    const std::int32_t a = candidates(i, 0), b = candidates(i, 1);
    if (loads[a] <= loads[b]) {
      assignment[i] = a;
      loads[a] += 1;
    } else {
      assignment[i] = b;
      loads[b] += 1;
    }
  }
  return std::nullopt;
}

}  // namespace faibench::p2c_least_loaded_router::baseline
