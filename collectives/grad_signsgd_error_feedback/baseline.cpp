// Format 1 in scalar passes, each over the whole bucket.
#include <cmath>
#include <cstring>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"

namespace faibench::grad_signsgd_error_feedback {

Rejected baseline::compress(Floats grad, Floats error, Bytes /*state*/, std::int64_t /*step*/, Layout /*layout*/, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                            View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> /*new_state*/, Length& payload_bytes,
                            Length& state_bytes) {
  if (auto bad = check_data(grad, error, peers, peer_offsets)) return bad;
  const std::int64_t n = grad.size(), blocks = (n + 4095) / 4096, others = peer_offsets.size() - 1;
  std::vector<float> c(static_cast<std::size_t>(n)), scales(static_cast<std::size_t>(blocks));
  for (std::int64_t i = 0; i < n; ++i) c[static_cast<std::size_t>(i)] = grad[i] + error[i];
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t last = std::min<std::int64_t>((b + 1) * 4096, n);
    double sum = 0;
    for (std::int64_t i = b * 4096; i < last; ++i) sum += std::abs(c[static_cast<std::size_t>(i)]);
    scales[static_cast<std::size_t>(b)] = static_cast<float>(sum / static_cast<double>(last - b * 4096));
  }
  std::uint8_t* at = payload.data();
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * 4096, m = std::min<std::int64_t>(4096, n - first);
    std::memcpy(at, &scales[static_cast<std::size_t>(b)], 4);
    at += 4;
    std::memset(at, 0, static_cast<std::size_t>((m + 7) / 8));
    for (std::int64_t j = 0; j < m; ++j)
      if (c[static_cast<std::size_t>(first + j)] < 0) at[j / 8] = static_cast<std::uint8_t>(at[j / 8] | 1 << (j % 8));
    at += (m + 7) / 8;
  }
  payload_bytes.value = at - payload.data();
  const auto bytes = static_cast<std::size_t>(payload_bytes.value);
  sign_block::decode({payload.data(), bytes}, update.flat());
  for (std::int64_t i = 0; i < n; ++i) new_error[i] = c[static_cast<std::size_t>(i)] - update[i];
  std::vector<double> sum(static_cast<std::size_t>(n));
  std::vector<float> peer(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r <= others; ++r) {
    if (r != rank) sign_block::decode({peers.data() + peer_offsets[r < rank ? r : r - 1], bytes}, peer);
    const float* term = r == rank ? update.data() : peer.data();
    for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] += term[i];
  }
  for (std::int64_t i = 0; i < n; ++i) average[i] = static_cast<float>(sum[static_cast<std::size_t>(i)] / static_cast<double>(others + 1));
  format() = sign_block::format;
  state_bytes.value = 0;
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
