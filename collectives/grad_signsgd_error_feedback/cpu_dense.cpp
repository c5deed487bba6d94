// Dense formats: 1, which everybody decodes, and 129 with scales of one byte. Two passes over grad and error, a block's 32 KiB of them in the first cache or not far:
//  - signs to a buffer of n/8 bytes, and sums: all that must be known before the first output may be written;
//  - scale and signs to update, new_error and average.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include <omp.h>

#include "collectives/grad_signsgd_error_feedback/dense.h"
#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"
#include "collectives/grad_signsgd_error_feedback/passes.h"
#include "collectives/grad_signsgd_error_feedback/powers.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

constexpr std::int64_t block = sign_block::block, block_bits = block / 8;
constexpr int per_octave = 8;
constexpr int least_normal = -126 * per_octave, largest_float = 128 * per_octave - 1;
constexpr std::uint8_t no_scale = 255;

std::int64_t block_count(std::int64_t n) { return (n + block - 1) / block; }

std::int64_t write_format_129(const dense::Signs& signs, std::int64_t n, std::uint8_t* payload, std::span<float> scales) {
  if (n == 0) return 0;
  const std::vector<std::uint8_t> head = dense::encode_scales(signs.means, scales);
  std::ranges::copy(head, payload);
  std::memcpy(payload + head.size(), signs.bits.get(), static_cast<std::size_t>((n + 7) / 8));
  return dense::short_bytes_of(n);
}

template <class Write>
Rejected compress(Floats grad, Floats error, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
                  View<float, 1> new_error, Length& payload_bytes, Length& state_bytes, Write&& write) {
  const std::int64_t n = grad.size(), blocks = block_count(n), others = peer_offsets.size() - 1;
  const int threads = n >= passes::shared_elements ? omp_get_max_threads() : 1;
  const dense::Signs signs = dense::look(grad.flat(), error.flat(), threads);
  if (!signs.finite) return check_data(grad, error, peers, peer_offsets);
  if (auto bad = check_peers(peers, peer_offsets, n)) return bad;
  std::vector<float> scales(static_cast<std::size_t>(blocks));
  payload_bytes.value = write(signs, n, payload.data(), scales);
  state_bytes.value = 0;
  const passes::Out out = passes::outputs(update, new_error, others == 0 ? average.data() : nullptr);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * block, m = std::min(block, n - first);
    passes::apply_signs(grad.data() + first, error.data() + first, m, signs.bits.get() + b * block_bits, scales[static_cast<std::size_t>(b)], out.from(first));
    if (others > 0) passes::mean_with_peers(rank, peers, peer_offsets, first, m, update.data() + first, average.data() + first);
  }
  return std::nullopt;
}

}  // namespace

dense::Signs dense::look(std::span<const float> grad, std::span<const float> error, int threads) {
  const auto n = static_cast<std::int64_t>(grad.size()), blocks = block_count(n);
  Signs signs{std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>((n + 7) / 8)), std::vector<double>(static_cast<std::size_t>(blocks))};
  bool finite = true;
#pragma omp parallel for schedule(static) reduction(&& : finite) num_threads(threads) if (threads > 1)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * block, m = std::min(block, n - first);
    double sum = 0;
    finite = passes::signs(grad.data() + first, error.data() + first, m, signs.bits.get() + b * block_bits, sum) && finite;
    signs.means[static_cast<std::size_t>(b)] = sum / static_cast<double>(m);
  }
  signs.finite = finite;
  return signs;
}

std::int64_t dense::write_format_1(const Signs& signs, std::int64_t n, std::uint8_t* payload, std::span<float> scales) {
  for (std::int64_t b = 0; b < block_count(n); ++b) {
    const std::int64_t bytes = (std::min(block, n - b * block) + 7) / 8;
    scales[static_cast<std::size_t>(b)] = static_cast<float>(signs.means[static_cast<std::size_t>(b)]);
    std::memcpy(payload, &scales[static_cast<std::size_t>(b)], 4);
    std::memcpy(payload + 4, signs.bits.get() + b * block_bits, static_cast<std::size_t>(bytes));
    payload += 4 + bytes;
  }
  return sign_block::bytes_of(n);
}

std::int64_t dense::short_bytes_of(std::int64_t n) { return n == 0 ? 0 : 2 + block_count(n) + (n + 7) / 8; }

std::vector<std::uint8_t> dense::encode_scales(std::span<const double> means, std::span<float> scales) {
  constexpr int none = std::numeric_limits<int>::min();
  std::vector<int> eighths;
  for (const double mean : means) eighths.push_back(mean >= 0x1p-126 ? std::clamp(static_cast<int>(std::lround(per_octave * std::log2(mean))), least_normal, largest_float) : none);
  const int top = std::max(least_normal, *std::ranges::max_element(eighths));
  std::vector<std::uint8_t> head = {static_cast<std::uint8_t>(top & 0xff), static_cast<std::uint8_t>(top >> 8 & 0xff)};
  for (const int e : eighths) head.push_back(e == none || top - e >= no_scale ? no_scale : static_cast<std::uint8_t>(top - e));
  decode_scales(head, scales);
  return head;
}

void dense::decode_scales(std::span<const std::uint8_t> head, std::span<float> scales) {
  const auto top = static_cast<std::int16_t>(head[0] | head[1] << 8);
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const std::uint8_t below = head[2 + b];
    scales[b] = below == no_scale ? 0.0f : static_cast<float>(std::min<double>(two_to_the((top - below) * (16 / per_octave)), std::numeric_limits<float>::max()));
  }
}

Rejected cpu_dense::compress(Floats grad, Floats error, Bytes /*state*/, std::int64_t /*step*/, Layout /*layout*/, std::int32_t rank, Bytes peers, Offsets peer_offsets,
                             View<std::int32_t, 0> format, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error,
                             View<std::uint8_t, 1> /*new_state*/, Length& payload_bytes, Length& state_bytes) {
  Rejected rejected = faibench::grad_signsgd_error_feedback::compress(grad, error, rank, peers, peer_offsets, payload, update, average, new_error, payload_bytes, state_bytes, dense::write_format_1);
  if (!rejected) format() = sign_block::format;
  return rejected;
}

Rejected cpu_dense::decompress(std::int32_t /*format*/, Bytes payload, std::int64_t n, std::int64_t /*step*/, Layout /*layout*/, View<float, 1> update) {
  if (auto bad = sign_block::check(payload.flat(), n, 0)) return bad;
  const std::uint8_t* at = payload.data();
  for (std::int64_t first = 0; first < n; first += block, at += 4 + block_bits) {
    float scale;
    std::memcpy(&scale, at, 4);
    passes::expand(at + 4, scale, std::min(block, n - first), update.data() + first);
  }
  return std::nullopt;
}

Rejected cpu_dense_short::compress(Floats grad, Floats error, Bytes /*state*/, std::int64_t /*step*/, Layout /*layout*/, std::int32_t rank, Bytes peers, Offsets peer_offsets,
                                   View<std::int32_t, 0> format, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error,
                                   View<std::uint8_t, 1> /*new_state*/, Length& payload_bytes, Length& state_bytes) {
  Rejected rejected = faibench::grad_signsgd_error_feedback::compress(grad, error, rank, peers, peer_offsets, payload, update, average, new_error, payload_bytes, state_bytes, write_format_129);
  if (!rejected) format() = dense::short_format;
  return rejected;
}

Rejected cpu_dense_short::decompress(std::int32_t /*format*/, Bytes payload, std::int64_t n, std::int64_t /*step*/, Layout /*layout*/, View<float, 1> update) {
  if (payload.size() != dense::short_bytes_of(n))
    return reject("payload_size", "payload", -1, std::to_string(payload.size()) + " bytes", std::to_string(n) + " elements need " + std::to_string(dense::short_bytes_of(n)));
  if (n == 0) return std::nullopt;
  std::vector<float> scales(static_cast<std::size_t>(block_count(n)));
  dense::decode_scales(payload.flat(), scales);
  const std::uint8_t* bits = payload.data() + 2 + scales.size();
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const std::int64_t first = static_cast<std::int64_t>(b) * block;
    passes::expand(bits + first / 8, scales[b], std::min(block, n - first), update.data() + first);
  }
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
