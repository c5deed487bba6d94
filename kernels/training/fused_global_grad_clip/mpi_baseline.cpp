// Tensor by tensor: a running sum of squares, an all-reduce of one number; then a second loop that scales, also by 1.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "communicator/communicator.h"
#include "kernels/training/fused_global_grad_clip/ranks.h"

namespace faibench::fused_global_grad_clip {
namespace {

Rejected agree(Communicator& communicator, const TensorRef& grads, std::span<const std::int64_t> sizes, double max_norm, bool error_if_nonfinite) {
  std::int64_t worst = !(max_norm >= 0) ? 2 : 0, held = 0;
  std::uint64_t hash = 1469598103934665603u;
  const auto mix = [&](std::uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > largest_size) worst = std::max<std::int64_t>(worst, 1);
    else if (held <= grads.shape[0]) held += share_of(size, communicator.rank(), communicator.size()).count;
    mix(static_cast<std::uint64_t>(size));
  }
  mix(sizes.size());
  mix(static_cast<std::uint64_t>(grads.dtype));
  mix(error_if_nonfinite ? 1 : 0);
  mix(std::bit_cast<std::uint64_t>(max_norm));
  communicator.all_reduce(&worst, &worst, 1, Dtype::i64, Reduce::max);
  if (worst == 2) return reject("bad_max_norm", "max_norm", -1, std::to_string(max_norm) + " on rank " + std::to_string(communicator.rank()), "the bound must be 0 or more on every rank");
  if (worst == 1) return reject("bad_size", "sizes", -1, "negative or above 2^48", "on this rank or on another");
  std::int64_t low = static_cast<std::int64_t>(hash >> 1), high = low, misfits = held != grads.shape[0];
  communicator.all_reduce(&low, &low, 1, Dtype::i64, Reduce::min);
  communicator.all_reduce(&high, &high, 1, Dtype::i64, Reduce::max);
  communicator.all_reduce(&misfits, &misfits, 1, Dtype::i64, Reduce::max);
  if (low != high) return reject("rank_mismatch", "sizes", -1, "not the same on all ranks", "sizes, dtype, max_norm or error_if_nonfinite differ between ranks");
  if (misfits) return reject("rank_mismatch", "grads", -1, std::to_string(grads.shape[0]) + " elements on rank " + std::to_string(communicator.rank()), "on some rank they are not its share of the sizes");
  return std::nullopt;
}

template <class T>
Rejected clip(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  const TensorRefMap& inputs = call.arguments.inputs;
  const auto grads = inputs.at("grads").flat<const T>();
  const auto sizes = inputs.at("sizes").flat<const std::int64_t>();
  const auto given_bound = inputs.at("max_norm").scalar<double>();
  const double max_norm = given_bound == 0 ? 0 : given_bound;  // -0 on one rank alone would give replicas zeros of another sign
  const auto error_if_nonfinite = static_cast<bool>(inputs.at("error_if_nonfinite").scalar<Bool8>());
  if (Rejected rejected = agree(communicator, inputs.at("grads"), sizes, max_norm, error_if_nonfinite)) return rejected;

  std::vector<double> norms;
  std::size_t at = 0;
  double sum = 0;
  for (const std::int64_t size : sizes) {
    const std::size_t end = at + static_cast<std::size_t>(share_of(size, rank, ranks).count);
    double own = 0;
    if (size >= sharded_from || rank == 0)
      for (std::size_t i = at; i < end; ++i) own += static_cast<double>(to_float(grads[i])) * to_float(grads[i]);
    at = end;
    communicator.all_reduce(&own, &own, 1, Dtype::f64, Reduce::sum);
    norms.push_back(std::sqrt(own));
    sum += norms.back() * norms.back();
  }
  const double total = std::sqrt(sum);
  if (error_if_nonfinite && !std::isfinite(total)) {
    std::size_t k = 0;
    while (std::isfinite(norms[k])) ++k;
    return reject("nonfinite_norm", "grads", -1, std::to_string(norms[k]), "norm of tensor " + std::to_string(k));
  }
  // One NaN, whatever the operands': bits must not depend on where a rank meets it.
  const auto rounded = [](double norm) { return std::isnan(norm) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(norm); };
  double factor = max_norm / (total + 1e-6);
  if (factor > 1) factor = 1;
  const auto clipped = call.arguments.outputs.at("clipped").flat<T>();
  if (std::isnan(factor)) std::fill(clipped.begin(), clipped.end(), round_to<T>(std::numeric_limits<double>::quiet_NaN()));
  else
    for (std::size_t i = 0; i < grads.size(); ++i) clipped[i] = round_to<T>(static_cast<double>(to_float(grads[i])) * factor);
  const auto tensor_norms = call.arguments.outputs.at("tensor_norms").flat<float>();
  for (std::size_t k = 0; k < norms.size(); ++k) tensor_norms[k] = rounded(norms[k]);
  call.arguments.outputs.at("total_norm").flat<float>()[0] = rounded(total);
  return std::nullopt;
}

}  // namespace

Rejected run_mpi_baseline(MultiRank::Call& call) { return call.arguments.inputs.at("grads").dtype == Dtype::f32 ? clip<float>(call) : clip<bf16>(call); }

}  // namespace faibench::fused_global_grad_clip
