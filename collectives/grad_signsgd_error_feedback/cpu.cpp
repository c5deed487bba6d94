// Format 128: the largest elements in units of their block's weight, positions and signs by a range coder. See sparse.cpp.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"
#include "collectives/grad_signsgd_error_feedback/sparse.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

/// Adds a peer's payload to the sums; bits become a sign of the scale without a branch.
void add_peer(const std::uint8_t* at, std::span<double> sum) {
  for (std::size_t first = 0; first < sum.size(); first += 4096) {
    const std::size_t m = std::min<std::size_t>(4096, sum.size() - first);
    float scale;
    std::memcpy(&scale, at, 4);
    const double signed_scale[2] = {scale, -scale};
    at += 4;
    for (std::size_t j = 0; j < m; ++j) sum[first + j] += signed_scale[at[j / 8] >> (j % 8) & 1];
    at += (m + 7) / 8;
  }
}

}  // namespace

Rejected cpu::compress(Floats grad, Floats error, Bytes /*state*/, std::int64_t /*step*/, Layout /*layout*/, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                       View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> /*new_state*/, Length& payload_bytes,
                       Length& state_bytes) {
  const auto n = static_cast<std::size_t>(grad.size());
  std::vector<float> c(n);
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    c[i] = grad.data()[i] + error.data()[i];
    finite &= std::abs(c[i]) <= std::numeric_limits<float>::max();  // false for what one of the three rules refuses: which one, check_data says
  }
  const std::int64_t others = peer_offsets.size() - 1;
  if (!finite || others > 0)
    if (auto bad = check_data(grad, error, peers, peer_offsets)) return bad;
  const sparse::Picked picked = sparse::pick(c, grad.flat());
  const std::vector<std::uint8_t> bytes = sparse::encode(picked, grad.size());
  std::copy(bytes.begin(), bytes.end(), payload.data());
  sparse::expand(picked, update.flat());
  for (std::size_t i = 0; i < n; ++i) new_error.data()[i] = c[i] - update.data()[i];
  if (others == 0) {
    for (std::size_t i = 0; i < n; ++i) average.data()[i] = update.data()[i] + 0.0f;
  } else {
    std::vector<double> sum(n);
    for (std::int64_t r = 0; r <= others; ++r) {
      if (r != rank) add_peer(peers.data() + peer_offsets[r < rank ? r : r - 1], sum);
      else
        for (std::size_t i = 0; i < n; ++i) sum[i] += update.data()[i];
    }
    for (std::size_t i = 0; i < n; ++i) average.data()[i] = static_cast<float>(sum[i] / static_cast<double>(others + 1));
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
