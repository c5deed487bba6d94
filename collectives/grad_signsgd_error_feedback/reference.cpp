// One element after another, in f64 where the contract leaves the rounding open.
#include <bit>
#include <cmath>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"

namespace faibench::grad_signsgd_error_feedback {

Rejected reference::compress(Floats grad, Floats error, Bytes /*state*/, std::int64_t /*step*/, Layout /*layout*/, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                             View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> /*new_state*/, Length& payload_bytes,
                             Length& state_bytes) {
  if (auto bad = check_data(grad, error, peers, peer_offsets)) return bad;
  const std::int64_t n = grad.size();
  std::int64_t at = 0;
  for (std::int64_t first = 0; first < n; first += 4096) {
    const std::int64_t last = std::min<std::int64_t>(first + 4096, n);
    double sum = 0;
    for (std::int64_t i = first; i < last; ++i) sum += std::abs(static_cast<double>(grad[i] + error[i]));
    const auto scale = static_cast<float>(sum / static_cast<double>(last - first));
    for (int k = 0; k < 4; ++k) payload[at++] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 8 * k);
    for (std::int64_t i = first; i < last; ++i) {
      const float c = grad[i] + error[i];
      const std::int64_t bit = (i - first) % 8;
      if (bit == 0) payload[at++] = 0;
      if (c < 0) payload[at - 1] = static_cast<std::uint8_t>(payload[at - 1] | 1 << bit);
      update[i] = c < 0 ? -scale : scale;
      new_error[i] = c - update[i];
    }
  }
  const std::int64_t others = peer_offsets.size() - 1;
  std::vector<std::vector<float>> decoded;
  for (std::int64_t q = 0; q < others; ++q) {
    decoded.emplace_back(static_cast<std::size_t>(n));
    sign_block::decode({peers.data() + peer_offsets[q], static_cast<std::size_t>(peer_offsets[q + 1] - peer_offsets[q])}, decoded.back());
  }
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t r = 0; r <= others; ++r) sum += r == rank ? update[i] : decoded[static_cast<std::size_t>(r < rank ? r : r - 1)][static_cast<std::size_t>(i)];
    average[i] = static_cast<float>(sum / static_cast<double>(others + 1));
  }
  format() = sign_block::format;
  payload_bytes.value = at;
  state_bytes.value = 0;
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
