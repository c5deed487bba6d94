// The straightforward multi-rank form: cast to f32, all-reduce, bias, cast. No casts for f32.
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"
#include "communicator/communicator.h"

namespace faibench::tp_allreduce_bias_fuse {
namespace {

Rejected differing_ranks(Communicator& communicator, const TensorRef& partial, const TensorRef& bias) {
  if (communicator.size() == 1) return std::nullopt;
  const std::uint64_t hash = XXH3_64bits(bias.data, static_cast<std::size_t>(bias.bytes()));
  const std::vector<std::uint64_t> own = {static_cast<std::uint64_t>(partial.shape[0]), static_cast<std::uint64_t>(partial.shape[1]), static_cast<std::uint64_t>(partial.dtype), hash};
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()), 4);
  std::vector<std::uint64_t> all(4 * counts.size());
  communicator.all_gather(own.data(), all.data(), counts, Dtype::u64);
  for (std::size_t i = 4; i < all.size(); ++i) {
    if (all[i] == all[i % 4]) continue;
    const char* const what[] = {"M", "N", "dtype", "bias"};
    return reject("rank_mismatch", i % 4 == 3 ? "bias" : "partial", -1, "not the same on all ranks", std::string(what[i % 4]) + " of rank " + std::to_string(i / 4) + " differs from that of rank 0");
  }
  return std::nullopt;
}

template <class T>
void reduce(Communicator& communicator, View<const T, 2> partial, View<const T, 1> bias, View<T, 2> out) {
  const std::int64_t M = partial.extent(0), N = partial.extent(1), L = M * N;
  std::vector<float> sum(static_cast<std::size_t>(L));
  for (std::int64_t i = 0; i < L; ++i) sum[static_cast<std::size_t>(i)] = to_float(partial.data()[i]);
  if (communicator.size() > 1) communicator.all_reduce(sum.data(), sum.data(), L, Dtype::f32, Reduce::sum);
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) out.data()[m * N + n] = round_to<T>(sum[static_cast<std::size_t>(m * N + n)] + to_float(bias[n]));
}

template <>
void reduce<float>(Communicator& communicator, View<const float, 2> partial, View<const float, 1> bias, View<float, 2> out) {
  const std::int64_t M = partial.extent(0), N = partial.extent(1), L = M * N;
  if (communicator.size() > 1) communicator.all_reduce(partial.data(), out.data(), L, Dtype::f32, Reduce::sum);
  else std::copy(partial.data(), partial.data() + L, out.data());
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) out.data()[m * N + n] += bias[n];
}

template <class T>
void run(MultiRank::Call& call) {
  reduce<T>(call.communicator, call.arguments.inputs.at("partial").view<const T, 2>(), call.arguments.inputs.at("bias").view<const T, 1>(), call.arguments.outputs.at("out").view<T, 2>());
}

}  // namespace

Rejected run_mpi_baseline(MultiRank::Call& call) {
  const TensorRef& partial = call.arguments.inputs.at("partial");
  if (auto rejection = differing_ranks(call.communicator, partial, call.arguments.inputs.at("bias"))) return rejection;
  switch (partial.dtype) {
    case Dtype::f16: run<f16>(call); break;
    case Dtype::bf16: run<bf16>(call); break;
    default: run<float>(call); break;
  }
  return std::nullopt;
}

}  // namespace faibench::tp_allreduce_bias_fuse
