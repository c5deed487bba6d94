// Format 128: the largest elements in units of their block's weight, positions and signs by a range coder. See sparse.cpp.
//  - Look: one pass over grad and error leaves sums by block and maxima by 64 elements; the choice looks again only at the groups that can hold something (0.3 % of the elements are sent).
//  - Apply: one pass more, in which nearly every element is left as it is; then the few that were sent. Nothing is written before all of it is known to be finite.
#include <algorithm>
#include <cmath>
#include <vector>

#include <omp.h>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"
#include "collectives/grad_signsgd_error_feedback/passes.h"
#include "collectives/grad_signsgd_error_feedback/sparse.h"

namespace faibench::grad_signsgd_error_feedback {

Rejected cpu::compress(Floats grad, Floats error, Bytes /*state*/, std::int64_t /*step*/, Layout /*layout*/, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                       View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> /*new_state*/, Length& payload_bytes,
                       Length& state_bytes) {
  const std::int64_t n = grad.size(), others = peer_offsets.size() - 1;
  const int threads = n >= passes::shared_elements ? omp_get_max_threads() : 1;
  const std::optional<sparse::Picked> picked = sparse::pick(grad.flat(), error.flat(), threads);
  if (!picked) return check_data(grad, error, peers, peer_offsets);
  if (auto bad = check_peers(peers, peer_offsets, n)) return bad;
  const std::vector<std::uint8_t> bytes = sparse::encode(*picked, n);
  std::copy(bytes.begin(), bytes.end(), payload.data());

  const passes::Out out = passes::outputs(update, new_error, others == 0 ? average.data() : nullptr);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (std::int64_t first = 0; first < n; first += sign_block::block)
    passes::apply_nothing(grad.data() + first, error.data() + first, std::min(sign_block::block, n - first), out.from(first));
  const std::vector<float> values = sparse::values_of(*picked);
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::int64_t i = picked->positions[j];
    update[i] = values[j];
    new_error[i] = grad[i] + error[i] - values[j];
    if (others == 0) average[i] = values[j];
  }
  if (others > 0) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (std::int64_t first = 0; first < n; first += sign_block::block)
      passes::mean_with_peers(rank, peers, peer_offsets, first, std::min(sign_block::block, n - first), update.data() + first, average.data() + first);
  }
  format() = sparse::format;
  payload_bytes.value = static_cast<std::int64_t>(bytes.size());
  state_bytes.value = 0;
  return std::nullopt;
}

Rejected cpu::decompress(std::int32_t /*format*/, Bytes payload, std::int64_t n, std::int64_t /*step*/, Layout /*layout*/, View<float, 1> update) {
  sparse::expand(sparse::decode(payload.flat(), n), update.flat());
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
