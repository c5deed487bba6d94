// The squared norms of all tensors in one all-reduce, between two passes over the own shares:
//  - Pass 1: sums of squares of segments that end at tensor borders, on all threads; added in order, so that bits do not depend on the number of threads.
//  - The K sums travel along a schedule that leaves equal bits on all ranks. Every rank takes T from them in the same order, so that factors are equal, and so are replicas.
//  - Pass 2: stores go past the caches, segments are taken from the end backwards, so that what pass 1 left in the caches is used.
// Replicas lie at other places on other ranks: they are scaled one element at a time, alike everywhere, not in vectors and remainders.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <omp.h>
#include <xxhash.h>

#include "communicator/communicator.h"
#include "kernels/training/fused_global_grad_clip/passes.h"
#include "kernels/training/fused_global_grad_clip/ranks.h"
#include "schedule/executor.h"

namespace faibench::fused_global_grad_clip {
namespace {

constexpr std::int64_t segment_elements = 1 << 15;
constexpr std::int64_t shared_elements = 1 << 18;  // below this a second thread costs more than it saves
constexpr std::int64_t streamed_bytes = 16 << 20;  // outputs above this do not stay in the caches anyway

struct Segment {
  std::int64_t first, count, tensor;
  bool replica;
};

/// One small reduction. The maximum of a value and of its negative differ from one rank's own exactly where ranks differ; all come to the same answer.
Rejected agree(Communicator& communicator, const TensorRef& grads, std::span<const std::int64_t> sizes, double max_norm, bool error_if_nonfinite) {
  const std::int64_t L = grads.shape[0];
  std::int64_t held = 0, bad_sizes = 0;
  for (const std::int64_t size : sizes) {
    const bool good = size >= 0 && size <= largest_size;
    bad_sizes |= good ? 0 : 1;
    if (good && held <= L) held += share_of(size, communicator.rank(), communicator.size()).count;
  }
  const bool good_bound = max_norm >= 0;
  constexpr std::size_t flags = 3, compared = 4;
  std::int64_t values[flags + 2 * compared] = {good_bound ? 0 : 1, bad_sizes, held == L ? 0 : 1,
                                               good_bound ? std::bit_cast<std::int64_t>(max_norm) : 0,
                                               static_cast<std::int64_t>(sizes.size()), static_cast<std::int64_t>(XXH3_64bits(sizes.data(), sizes.size_bytes()) >> 1),
                                               static_cast<std::int64_t>(grads.dtype) * 2 + (error_if_nonfinite ? 1 : 0)};
  for (std::size_t k = flags; k < flags + compared; ++k) values[k + compared] = -values[k];
  if (communicator.size() > 1) communicator.all_reduce(values, values, std::size(values), Dtype::i64, Reduce::max);
  const auto differs = [&](std::size_t k) { return values[flags + k] != -values[flags + compared + k]; };
  const std::string here = " on rank " + std::to_string(communicator.rank());
  if (values[0] != 0) return reject("bad_max_norm", "max_norm", -1, std::to_string(max_norm) + here, "the bound must be 0 or more on every rank");
  if (values[1] != 0) return reject("bad_size", "sizes", -1, "negative or above 2^48", "on this rank or on another");
  if (differs(0)) return reject("rank_mismatch", "max_norm", -1, std::to_string(max_norm) + here, "it differs between ranks");
  if (differs(1)) return reject("rank_mismatch", "sizes", -1, "a list of " + std::to_string(sizes.size()) + here, "the number of tensors differs between ranks");
  if (differs(2)) return reject("rank_mismatch", "sizes", -1, "not the same on all ranks", "sizes of tensors differ between ranks");
  if (differs(3)) return reject("rank_mismatch", "error_if_nonfinite", -1, (error_if_nonfinite ? "true, " : "false, ") + std::string(name_of(grads.dtype)) + here, "it or the dtype of grads differs between ranks");
  if (values[2] != 0) return reject("rank_mismatch", "grads", -1, std::to_string(L) + " elements" + here, "on some rank they are not its share of the sizes");
  return std::nullopt;
}

void sum_over_ranks(Communicator& communicator, std::vector<double>& squares) {
  if (communicator.size() == 1 || squares.empty()) return;
  std::vector<double> sums(squares.size());
  const auto schedule = norms_schedule(static_cast<std::int64_t>(squares.size()), communicator.nodes());
  BufferBases bases{};
  bases[static_cast<std::size_t>(Buffer::input)] = squares.data();
  bases[static_cast<std::size_t>(Buffer::output)] = sums.data();
  execute(*schedule, communicator, bases, [](const SumCall& call) {
    const auto into = static_cast<double*>(call.into);
    for (std::int64_t i = 0; i < call.count; ++i) {
      double sum = static_cast<const double*>(call.terms[0].data)[i];
      for (std::size_t t = 1; t < call.terms.size(); ++t) sum += static_cast<const double*>(call.terms[t].data)[i];
      into[i] = sum;
    }
  });
  squares.swap(sums);
}

template <class T>
Rejected clip(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& inputs = call.arguments.inputs;
  const auto grads = inputs.at("grads").flat<const T>();
  const auto sizes = inputs.at("sizes").flat<const std::int64_t>();
  const auto given_bound = inputs.at("max_norm").scalar<double>();
  const double max_norm = given_bound == 0 ? 0 : given_bound;  // -0 on one rank alone would give replicas zeros of another sign
  const auto error_if_nonfinite = static_cast<bool>(inputs.at("error_if_nonfinite").scalar<Bool8>());
  if (Rejected rejected = agree(communicator, inputs.at("grads"), sizes, max_norm, error_if_nonfinite)) return rejected;

  std::vector<Segment> segments;
  std::int64_t at = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::int64_t end = at + share_of(sizes[k], communicator.rank(), communicator.size()).count;
    for (; at < end; at += segments.back().count) segments.push_back({at, std::min(segment_elements, end - at), static_cast<std::int64_t>(k), sizes[k] < sharded_from});
  }
  const int threads = at >= shared_elements ? omp_get_max_threads() : 1;
  std::vector<double> sums(segments.size()), squares(sizes.size());
#pragma omp parallel for schedule(dynamic, 8) num_threads(threads) if (threads > 1)
  for (std::size_t s = 0; s < segments.size(); ++s)
    if (!segments[s].replica || communicator.rank() == 0) sums[s] = cpu::sum_of_squares<T>(grads.data() + segments[s].first, segments[s].count, nullptr, false);
  for (std::size_t s = 0; s < segments.size(); ++s) squares[static_cast<std::size_t>(segments[s].tensor)] += sums[s];
  sum_over_ranks(communicator, squares);

  double sum = 0;
  for (const double square : squares) sum += square;
  const double total = std::sqrt(sum);
  if (error_if_nonfinite && !std::isfinite(total)) {
    const auto k = static_cast<std::size_t>(std::find_if(squares.begin(), squares.end(), [](double square) { return !std::isfinite(square); }) - squares.begin());
    return reject("nonfinite_norm", "grads", -1, std::to_string(squares[k]), "squared norm of tensor " + std::to_string(k));
  }
  const double c = max_norm / (total + 1e-6), factor = c > 1 ? 1 : c;
  const auto clipped = call.arguments.outputs.at("clipped").flat<T>();
  const bool streamed = static_cast<std::int64_t>(clipped.size_bytes()) >= streamed_bytes;
  const T nan = round_to<T>(std::numeric_limits<double>::quiet_NaN());
  const auto last = static_cast<std::int64_t>(segments.size()) - 1;
#pragma omp parallel for schedule(dynamic, 8) num_threads(threads) if (threads > 1)
  for (std::int64_t s = last; s >= 0; --s) {
    const Segment& segment = segments[static_cast<std::size_t>(s)];
    const T* const from = grads.data() + segment.first;
    T* const to = clipped.data() + segment.first;
    if (std::isnan(factor)) std::fill(to, to + segment.count, nan);  // one NaN, whatever the operands'
    else if (!segment.replica) cpu::scale<T>(from, segment.count, factor, to, streamed);
    else if (factor == 1) std::copy(from, from + segment.count, to);
    else
      for (std::int64_t i = 0; i < segment.count; ++i) to[i] = round_to<T>(static_cast<double>(to_float(from[i])) * factor);
  }
  const auto rounded = [](double norm) { return std::isnan(norm) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(norm); };
  const auto tensor_norms = call.arguments.outputs.at("tensor_norms").flat<float>();
  for (std::size_t k = 0; k < squares.size(); ++k) tensor_norms[k] = rounded(std::sqrt(squares[k]));
  call.arguments.outputs.at("total_norm").flat<float>()[0] = rounded(total);
  return std::nullopt;
}

}  // namespace

// Whole inputs to all take one round, and (P-1) times the bytes; partial sums take log2 P rounds. Beyond, pieces are summed by one rank each and copied.
std::unique_ptr<Schedule> norms_schedule(std::int64_t tensors, const NodeMap& nodes) {
  const std::int64_t bytes = 8 * tensors;
  const AllReduce algorithm = nodes.ranks() <= 8 && bytes * (nodes.ranks() - 1) <= (16 << 10) ? AllReduce::one_shot : bytes <= (256 << 10) ? AllReduce::recursive_doubling : AllReduce::halving_doubling;
  return all_reduce_schedule(algorithm, tensors, nodes, sizeof(double), sizeof(double));
}

Rejected run_mpi(MultiRank::Call& call) { return call.arguments.inputs.at("grads").dtype == Dtype::f32 ? clip<float>(call) : clip<bf16>(call); }

}  // namespace faibench::fused_global_grad_clip
