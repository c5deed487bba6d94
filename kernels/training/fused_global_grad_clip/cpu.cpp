// Bound by memory: 2G elements read, G written; the norm must be complete before the first scaled element.
//  - Pass 1: the flat buffer in segments that end at tensor borders; f64 sums of squares in four chains of vectors (one chain is bound by the latency of an addition).
//  - Pass 2: elements know no tensors any more; stores go past the caches, blocks are taken from the end backwards, so that what pass 1 left in the caches is used.
//  - Where a sample says that nothing will be clipped, pass 1 copies on the way: one read less. A wrong guess costs a write, never the answer.
//    Not with error_if_nonfinite: nothing may be written before the norm is known.
// The sums of segments are added in order, so the bits do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <vector>

#include <omp.h>

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"
#include "kernels/training/fused_global_grad_clip/passes.h"

namespace faibench::fused_global_grad_clip::cpu {
namespace {

constexpr std::int64_t segment_elements = 1 << 15;
constexpr std::int64_t shared_elements = 1 << 18;  // below this a second thread costs more than it saves
constexpr std::int64_t streamed_bytes = 16 << 20;  // outputs above this do not stay in the caches anyway

struct Segment {
  std::int64_t first, count, tensor;
};

std::vector<Segment> segments_of(View<const std::int64_t, 1> offsets) {
  std::vector<Segment> segments;
  const std::int64_t K = offsets.extent(0) - 1;
  segments.reserve(static_cast<std::size_t>(K + offsets[K] / segment_elements));
  for (std::int64_t k = 0; k < K; ++k)
    for (std::int64_t i = offsets[k]; i < offsets[k + 1]; i += segment_elements) segments.push_back({i, std::min(segment_elements, offsets[k + 1] - i), k});
  return segments;
}

/// Whether a sample of the elements says that c is above 1 by far. Any answer is right; NaN and Inf answer no.
template <class T>
bool looks_unclipped(View<const T, 1> grads, double max_norm) {
  constexpr std::int64_t piece = 64, pieces = 2048;
  const std::int64_t G = grads.extent(0);
  if (G < piece * pieces * 8) return false;
  double sum = 0;
  for (std::int64_t p = 0; p < pieces; ++p) sum += sum_of_squares<T>(grads.data() + (G - piece) / pieces * p, piece, nullptr, false);
  return std::sqrt(sum * static_cast<double>(G) / (piece * pieces)) * 4 < max_norm;
}

}  // namespace

template <class T>
Rejected clip_gradients(View<const T, 1> grads, View<const std::int64_t, 1> offsets, double max_norm, bool error_if_nonfinite, View<T, 1> clipped, View<float, 0> total_norm, View<float, 1> tensor_norms) {
  const std::int64_t G = grads.extent(0), K = offsets.extent(0) - 1;
  const bool streamed = G * static_cast<std::int64_t>(sizeof(T)) >= streamed_bytes;
  const std::vector<Segment> segments = segments_of(offsets);
  std::vector<double> sums(segments.size()), squares(static_cast<std::size_t>(K));
  const bool copied = streamed && !error_if_nonfinite && looks_unclipped<T>(grads, max_norm);
  const int threads = G >= shared_elements ? omp_get_max_threads() : 1;

#pragma omp parallel for schedule(dynamic, 8) num_threads(threads) if (threads > 1)
  for (std::size_t s = 0; s < segments.size(); ++s)
    sums[s] = sum_of_squares<T>(grads.data() + segments[s].first, segments[s].count, copied ? clipped.data() + segments[s].first : nullptr, streamed);

  for (std::size_t s = 0; s < segments.size(); ++s) squares[static_cast<std::size_t>(segments[s].tensor)] += sums[s];
  double sum = 0;
  for (double square : squares) sum += square;
  const double total = std::sqrt(sum);
  if (error_if_nonfinite && !std::isfinite(total)) {
    const auto k = std::find_if(squares.begin(), squares.end(), [](double square) { return !std::isfinite(square); }) - squares.begin();
    return reject("nonfinite_norm", "grads", offsets[k], std::to_string(squares[static_cast<std::size_t>(k)]), "norm of tensor " + std::to_string(k) + ", which starts here");
  }
  const double c = max_norm / (total + 1e-6), factor = c > 1 ? 1 : c;
  if (!copied || factor != 1) {
    const std::int64_t blocks = (G + segment_elements - 1) / segment_elements;
#pragma omp parallel for schedule(dynamic, 8) num_threads(threads) if (threads > 1)
    for (std::int64_t b = blocks - 1; b >= 0; --b) {
      const std::int64_t first = b * segment_elements;
      scale<T>(grads.data() + first, std::min(segment_elements, G - first), factor, clipped.data() + first, streamed);
    }
  }
  for (std::int64_t k = 0; k < K; ++k) tensor_norms[k] = static_cast<float>(std::sqrt(squares[static_cast<std::size_t>(k)]));
  total_norm() = static_cast<float>(total);
  return std::nullopt;
}

template Rejected clip_gradients<float>(View<const float, 1>, View<const std::int64_t, 1>, double, bool, View<float, 1>, View<float, 0>, View<float, 1>);
template Rejected clip_gradients<bf16>(View<const bf16, 1>, View<const std::int64_t, 1>, double, bool, View<bf16, 1>, View<float, 0>, View<float, 1>);

}  // namespace faibench::fused_global_grad_clip::cpu
