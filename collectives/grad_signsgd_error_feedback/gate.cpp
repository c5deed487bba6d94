// The gate of one step, from inputs and outputs alone.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

Mismatch whole(const char* tensor, std::string what) { return {tensor, {}, "", "", 0, std::move(what)}; }

/// Scales are the blocks' means of |c|, and signs those of c.
GateResult check_sign_block(const std::vector<float>& c, std::span<const std::uint8_t> payload, std::span<const float> update) {
  const auto n = static_cast<std::int64_t>(c.size());
  if (auto bad = sign_block::check(payload, n, 0)) return whole("payload", "is not of wire format 1: " + bad->message);
  const std::uint8_t* at = payload.data();
  for (std::int64_t first = 0; first < n; first += sign_block::block) {
    const std::int64_t m = std::min(sign_block::block, n - first);
    double sum = 0;
    for (std::int64_t j = 0; j < m; ++j) sum += std::abs(static_cast<double>(c[static_cast<std::size_t>(first + j)]));
    float scale;
    std::memcpy(&scale, at, 4);
    at += 4;
    const double mean = sum / static_cast<double>(m);
    const double tolerance = 1e-6 * mean + (mean < 0x1p-126 ? 0x1p-126 : 0);  // below the normal range it may be flushed
    if (!(std::abs(scale - mean) <= tolerance)) return Mismatch{"payload", {at - 4 - payload.data()}, std::to_string(scale), std::to_string(mean), std::abs(scale - mean) / tolerance, "scale"};
    for (std::int64_t j = 0; j < m; ++j) {
      const bool negative = at[j / 8] >> (j % 8) & 1;
      if (negative != (c[static_cast<std::size_t>(first + j)] < 0)) return Mismatch{"payload", {at + j / 8 - payload.data()}, negative ? "1" : "0", negative ? "0" : "1", 0, "sign of element " + std::to_string(first + j)};
      const float wanted = negative ? -scale : scale, got = update[static_cast<std::size_t>(first + j)];
      if (std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(wanted)) return Mismatch{"update", {first + j}, std::to_string(got), std::to_string(wanted), 0, "is not what payload decodes to"};
    }
    at += (m + 7) / 8;
  }
  return std::nullopt;
}

}  // namespace

GateResult check_step_of(const TensorRef& grad_ref, const TensorRef& error_ref, const TensorRefMap& outputs, double& contraction) {
  for (const char* name : {"format", "payload", "update", "new_error", "new_state"})
    if (!outputs.find(name)) return whole(name, "output is missing");
  const auto grad = grad_ref.flat<const float>(), error = error_ref.flat<const float>();
  const auto update = outputs.at("update").flat<const float>(), new_error = outputs.at("new_error").flat<const float>();
  if (update.size() != grad.size()) return whole("update", "shape differs");
  if (new_error.size() != grad.size()) return whole("new_error", "shape differs");
  const auto format = outputs.at("format").scalar<std::int32_t>();
  if (format != sign_block::format && format < 128) return whole("format", "is " + std::to_string(format) + ", neither 1 nor 128 and more");
  std::vector<float> c(grad.size());
  double before = 0, after = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] = grad[i] + error[i];
    const double wanted = static_cast<double>(c[i]) - update[i], e = new_error[i];
    const double tolerance = 0x1p-22 * (std::abs(static_cast<double>(grad[i])) + std::abs(static_cast<double>(error[i])) + std::abs(static_cast<double>(update[i]))) + 0x1p-126;
    const double off = std::abs(e - wanted);
    if (!(off <= tolerance)) return Mismatch{"new_error", {static_cast<std::int64_t>(i)}, std::to_string(e), std::to_string(wanted), off / tolerance, "new_error is not c - update"};
    before += static_cast<double>(c[i]) * c[i];
    after += e * e;
  }
  contraction = before > 0 ? std::sqrt(after) / std::sqrt(before) : after > 0 ? std::numeric_limits<double>::infinity() : 0;
  const auto payload = outputs.at("payload").flat<const std::uint8_t>();
  if (payload.size() > 4 * grad.size() + 64) return whole("payload", "is longer than 4n + 64 bytes");
  if (format == sign_block::format) return check_sign_block(c, payload, update);
  return std::nullopt;
}

GateResult check_own(const TensorRef& grad, const TensorRef& error, const TensorRefMap& outputs) {
  double contraction = 0;
  if (auto bad = check_step_of(grad, error, outputs, contraction)) return bad;
  if (!(contraction <= most_contraction)) return whole("new_error", "its norm is " + std::to_string(contraction) + " times that of grad + error: it must not be larger");
  return std::nullopt;
}

GateResult check_average(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  const TensorRef* average_ref = outputs.find("average");
  if (!average_ref) return whole("average", "output is missing");
  const auto update = outputs.at("update").flat<const float>(), average = average_ref->flat<const float>();
  if (average.size() != update.size()) return whole("average", "shape differs");
  const auto peers = inputs.at("peers").flat<const std::uint8_t>();
  const auto offsets = inputs.at("peer_offsets").flat<const std::int64_t>();
  const auto rank = inputs.at("rank").scalar<std::int32_t>();
  const auto others = static_cast<std::int64_t>(offsets.size()) - 1;
  std::vector<double> sum(update.size());
  std::vector<float> decoded(update.size());
  for (std::int64_t r = 0; r <= others; ++r) {
    const auto q = static_cast<std::size_t>(r < rank ? r : r - 1);
    if (r != rank) sign_block::decode(peers.subspan(static_cast<std::size_t>(offsets[q]), static_cast<std::size_t>(offsets[q + 1] - offsets[q])), decoded);
    const std::span<const float> term = r == rank ? update : std::span<const float>(decoded);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto wanted = static_cast<float>(sum[i] / static_cast<double>(others + 1));
    if (average[i] != wanted) return Mismatch{"average", {static_cast<std::int64_t>(i)}, std::to_string(average[i]), std::to_string(wanted), 0, "is not the mean of the updates in ascending rank"};
  }
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
