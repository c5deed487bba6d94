// Nothing at once: compress the bucket, gather all payloads, decode each rank's to an f32 buffer and add it.
#include <cmath>
#include <cstring>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/ranks.h"
#include "communicator/communicator.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

/// What this rank has to reject by itself, in the contract's order.
Rejected own_fault(const TensorRefMap& inputs) {
  for (const auto check : {check_layout, check_step, check_grad, check_error, check_sum})
    if (Rejected bad = check(inputs)) return bad;
  return std::nullopt;
}

Rejected agree(Communicator& communicator, const TensorRefMap& inputs) {
  static const char* const codes[] = {"", "bad_layout", "bad_step", "nonfinite_grad", "nonfinite_error", "error_overflow"};
  Rejected own = own_fault(inputs);
  std::int64_t code = 0;
  for (std::int64_t k = 1; k < 6; ++k)
    if (own && own->code == codes[k]) code = k;
  // The most negative is the lowest rank that has a code. The least of a value and of its negative tell whether ranks differ.
  std::uint64_t hash = 1469598103934665603u;
  for (const std::int64_t word : inputs.at("layout").flat<const std::int64_t>()) hash = (hash ^ static_cast<std::uint64_t>(word)) * 1099511628211u;
  const std::int64_t n = inputs.at("grad").size(), step = own ? 0 : inputs.at("step").scalar<std::int64_t>(), layout = static_cast<std::int64_t>(hash >> 1);
  std::int64_t values[7] = {code == 0 ? 0 : -((communicator.size() - communicator.rank()) * 8 + code), n, -n, step, -step, layout, -layout};
  communicator.all_reduce(values, values, 7, Dtype::i64, Reduce::min);
  if (values[0] != 0) {
    const std::int64_t at_fault = communicator.size() - -values[0] / 8;
    if (own && at_fault == communicator.rank()) return own;
    return reject(codes[-values[0] % 8], "grad", -1, "of rank " + std::to_string(at_fault), "another rank rejects its inputs");
  }
  const char* const names[] = {"grad", "step", "layout"};
  for (int k = 0; k < 3; ++k)
    if (values[1 + 2 * k] != -values[2 + 2 * k]) return reject("rank_mismatch", names[k], -1, "not the same on all ranks", "ranks must agree on n, step and layout");
  return std::nullopt;
}

}  // namespace

Rejected run_mpi_baseline(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& inputs = call.arguments.inputs;
  if (Rejected rejected = agree(communicator, inputs)) return rejected;
  const auto grad = inputs.at("grad").flat<const float>(), error = inputs.at("error").flat<const float>();
  const auto payload = call.arguments.outputs.at("payload").flat<std::uint8_t>().first(static_cast<std::size_t>(sign_block::bytes_of(inputs.at("grad").size())));
  const auto update = call.arguments.outputs.at("update").flat<float>(), average = call.arguments.outputs.at("average").flat<float>(), new_error = call.arguments.outputs.at("new_error").flat<float>();
  const std::size_t n = grad.size();
  *call.arguments.outputs.at("format").flat<std::int32_t>().data() = sign_block::format;
  call.arguments.lengths.set("B", static_cast<std::int64_t>(payload.size()));

  std::vector<float> c(n);
  for (std::size_t i = 0; i < n; ++i) c[i] = grad[i] + error[i];
  std::size_t at = 0;
  for (std::size_t first = 0; first < n; first += 4096) {
    const std::size_t m = std::min<std::size_t>(4096, n - first);
    double sum = 0;
    for (std::size_t j = 0; j < m; ++j) sum += std::abs(c[first + j]);
    const auto scale = static_cast<float>(sum / static_cast<double>(m));
    std::memcpy(&payload[at], &scale, 4);
    at += 4;
    std::memset(&payload[at], 0, (m + 7) / 8);
    for (std::size_t j = 0; j < m; ++j)
      if (c[first + j] < 0) payload[at + j / 8] = static_cast<std::uint8_t>(payload[at + j / 8] | 1 << (j % 8));
    at += (m + 7) / 8;
  }
  sign_block::decode(payload, update);
  for (std::size_t i = 0; i < n; ++i) new_error[i] = c[i] - update[i];

  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::vector<std::int64_t> counts(ranks, static_cast<std::int64_t>(payload.size()));
  std::vector<std::uint8_t> all(ranks * payload.size());
  communicator.all_gather(payload.data(), all.data(), counts, Dtype::u8);
  std::vector<double> sum(n);
  std::vector<float> decoded(n);
  for (std::size_t r = 0; r < ranks; ++r) {
    sign_block::decode(std::span<const std::uint8_t>(all).subspan(r * payload.size(), payload.size()), decoded);
    for (std::size_t i = 0; i < n; ++i) sum[i] += decoded[i];
  }
  for (std::size_t i = 0; i < n; ++i) average[i] = static_cast<float>(sum[i] / static_cast<double>(ranks));
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
