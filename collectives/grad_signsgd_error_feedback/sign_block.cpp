// Wire format 1, and the rules on data.
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

float scale_at(const std::uint8_t* bytes) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(bytes[i]) << 8 * i;
  return std::bit_cast<float>(bits);
}

Floats floats(const TensorRefMap& inputs, const char* name) { return inputs.at(name).view<const float, 1>(); }
Bytes peers_of(const TensorRefMap& inputs) { return inputs.at("peers").view<const std::uint8_t, 1>(); }
Offsets offsets_of(const TensorRefMap& inputs) { return inputs.at("peer_offsets").view<const std::int64_t, 1>(); }

Rejected finite(Floats values, const char* code, const char* name) {
  for (std::int64_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) return reject(code, name, i, std::to_string(values[i]), "it must be finite");
  return std::nullopt;
}

Rejected finite_sum(Floats grad, Floats error) {
  for (std::int64_t i = 0; i < grad.size(); ++i)
    if (!std::isfinite(grad[i] + error[i])) return reject("error_overflow", "error", i, std::to_string(error[i]), "added to grad " + std::to_string(grad[i]) + " it overflows f32");
  return std::nullopt;
}

Rejected sizes(Offsets offsets, std::int64_t n) {
  const std::int64_t wanted = sign_block::bytes_of(n);
  for (std::int64_t q = 0; q + 1 < offsets.size(); ++q)
    if (const std::int64_t size = offsets[q + 1] - offsets[q]; size != wanted)
      return reject("peer_size", "peer_offsets", q + 1, std::to_string(offsets[q + 1]), "payload " + std::to_string(q) + " has " + std::to_string(size) + " bytes, " + std::to_string(n) + " elements need " + std::to_string(wanted));
  return std::nullopt;
}

Rejected scales(Bytes peers, Offsets offsets, std::int64_t n) {
  for (std::int64_t q = 0; q + 1 < offsets.size(); ++q)
    for (std::int64_t first = 0, at = offsets[q]; first < n; first += sign_block::block) {
      const float scale = scale_at(peers.data() + at);
      if (!std::isfinite(scale) || std::signbit(scale)) return reject("peer_scale", "peers", at, std::to_string(scale), "a scale of payload " + std::to_string(q) + " must be finite and without sign bit");
      at += sign_block::bytes_of(std::min(sign_block::block, n - first));
    }
  return std::nullopt;
}

Rejected padding(Bytes peers, Offsets offsets, std::int64_t n) {
  if (n % 8 == 0) return std::nullopt;
  for (std::int64_t q = 0; q + 1 < offsets.size(); ++q) {
    const std::int64_t at = offsets[q + 1] - 1;  // only the last block can end within a byte
    if (peers[at] >> (n % 8)) return reject("peer_padding", "peers", at, std::to_string(peers[at]), "bits past the last element of payload " + std::to_string(q) + " must be 0");
  }
  return std::nullopt;
}

}  // namespace

std::int64_t sign_block::bytes_of(std::int64_t n) {
  const std::int64_t whole = n / block, rest = n % block;
  return whole * (4 + block / 8) + (rest > 0 ? 4 + (rest + 7) / 8 : 0);
}

void sign_block::decode(std::span<const std::uint8_t> payload, std::span<float> update) {
  const std::uint8_t* at = payload.data();
  const auto n = static_cast<std::int64_t>(update.size());
  for (std::int64_t first = 0; first < n; first += block) {
    const std::int64_t m = std::min(block, n - first);
    const float scale = scale_at(at);
    at += 4;
    for (std::int64_t j = 0; j < m; ++j) update[static_cast<std::size_t>(first + j)] = at[j / 8] >> (j % 8) & 1 ? -scale : scale;
    at += (m + 7) / 8;
  }
}

Rejected sign_block::check(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t first_index) {
  const std::int64_t ends[2] = {0, static_cast<std::int64_t>(payload.size())};
  const Bytes bytes(payload.data(), {ends[1]});
  const Offsets offsets(ends, {2});
  Rejected bad = sizes(offsets, n);
  if (!bad) bad = scales(bytes, offsets, n);
  if (!bad) bad = padding(bytes, offsets, n);
  if (bad) bad->index += first_index;
  return bad;
}

Rejected check_grad(const TensorRefMap& inputs) { return finite(floats(inputs, "grad"), "nonfinite_grad", "grad"); }
Rejected check_error(const TensorRefMap& inputs) { return finite(floats(inputs, "error"), "nonfinite_error", "error"); }
Rejected check_sum(const TensorRefMap& inputs) { return finite_sum(floats(inputs, "grad"), floats(inputs, "error")); }
Rejected check_peer_sizes(const TensorRefMap& inputs) { return sizes(offsets_of(inputs), inputs.at("grad").size()); }
Rejected check_peer_scales(const TensorRefMap& inputs) { return scales(peers_of(inputs), offsets_of(inputs), inputs.at("grad").size()); }
Rejected check_peer_padding(const TensorRefMap& inputs) { return padding(peers_of(inputs), offsets_of(inputs), inputs.at("grad").size()); }

Rejected check_peers(Bytes peers, Offsets peer_offsets, std::int64_t n) {
  if (auto bad = sizes(peer_offsets, n)) return bad;
  if (auto bad = scales(peers, peer_offsets, n)) return bad;
  return padding(peers, peer_offsets, n);
}

Rejected check_data(Floats grad, Floats error, Bytes peers, Offsets peer_offsets) {
  if (auto bad = finite(grad, "nonfinite_grad", "grad")) return bad;
  if (auto bad = finite(error, "nonfinite_error", "error")) return bad;
  if (auto bad = finite_sum(grad, error)) return bad;
  return check_peers(peers, peer_offsets, grad.size());
}

}  // namespace faibench::grad_signsgd_error_feedback
