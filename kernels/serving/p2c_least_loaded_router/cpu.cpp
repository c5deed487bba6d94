// First form: loads kept in place, both candidates' loads written back, so that no store address waits for a decision.
#include <algorithm>

#include "kernels/serving/p2c_least_loaded_router/p2c_least_loaded_router.h"

namespace faibench::p2c_least_loaded_router::cpu {

Rejected route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads) {
  for (std::int64_t r = 0; r < initial_loads.extent(0); ++r) {
    const std::int64_t load = initial_loads[r];
    if (load < 0 || load > (std::int64_t{1} << 62)) return reject("bad_load", "initial_loads", r, std::to_string(load), "a load lies in 0 .. 2^62");
  }
  const std::span<const std::int32_t> flat = candidates.flat();
  for (std::size_t i = 0; i < flat.size(); ++i)
    if (static_cast<std::uint32_t>(flat[i]) >= static_cast<std::uint32_t>(num_replicas))
      return reject("bad_candidate", "candidates", static_cast<std::int64_t>(i), std::to_string(flat[i]), "a candidate lies in 0 .. num_replicas-1 = " + std::to_string(num_replicas - 1));
  std::copy_n(initial_loads.data(), initial_loads.extent(0), loads.data());
  std::int64_t* const load = loads.data();
  for (std::int64_t i = 0; i < candidates.extent(0); ++i) {
    const std::int32_t a = candidates(i, 0), b = candidates(i, 1);
    const std::int64_t load_a = load[a], load_b = load[b], second = load_b < load_a;
    load[b] = load_b + second;
    load[a] = load_a + 1 - second;  // after b's: right for a == b, too
    assignment[i] = second ? b : a;
  }
  return std::nullopt;
}

}  // namespace faibench::p2c_least_loaded_router::cpu
