// The sparse format between ranks. Two all-gathers, of lengths and of payloads: about (R-1)*4n/960 bytes received instead of (R-1)*4n/31.75, for choosing and coding 0.3 % of the elements.
// The average is made block by block of the picks of all ranks, which come in ascending position from each: f64 sums in ascending rank, and 0 where nobody sent anything.
#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/passes.h"
#include "collectives/grad_signsgd_error_feedback/ranks.h"
#include "collectives/grad_signsgd_error_feedback/sparse.h"
#include "communicator/communicator.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

constexpr std::int64_t block = sign_block::block;

struct Picks {
  std::vector<std::int64_t> positions;
  std::vector<float> values;
  std::size_t at = 0;
};

void average_picks(std::vector<Picks>& ranks, std::span<float> average) {
  std::fill(average.begin(), average.end(), 0.0f);
  const auto n = static_cast<std::int64_t>(average.size());
  std::vector<double> sum(static_cast<std::size_t>(block));
  std::vector<std::int64_t> touched;
  for (std::int64_t first = 0; first < n; first += block) {
    touched.clear();
    for (Picks& picks : ranks)
      for (; picks.at < picks.positions.size() && picks.positions[picks.at] < first + block; ++picks.at) {
        const std::int64_t i = picks.positions[picks.at] - first;
        sum[static_cast<std::size_t>(i)] += picks.values[picks.at];
        touched.push_back(i);
      }
    for (const std::int64_t i : touched) average[static_cast<std::size_t>(first + i)] = static_cast<float>(sum[static_cast<std::size_t>(i)] / static_cast<double>(ranks.size()));
    for (const std::int64_t i : touched) sum[static_cast<std::size_t>(i)] = 0;
  }
}

}  // namespace

Rejected run_mpi_sparse(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& inputs = call.arguments.inputs;
  const auto grad = inputs.at("grad").flat<const float>(), error = inputs.at("error").flat<const float>();
  const std::optional<sparse::Picked> picked = sparse::pick(grad, error, 1);
  if (Rejected rejected = agree(communicator, inputs, sparse::format, picked.has_value())) return rejected;
  TensorRefMap& outputs = call.arguments.outputs;
  const auto n = static_cast<std::int64_t>(grad.size());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::vector<std::uint8_t> bytes = sparse::encode(*picked, n);
  std::ranges::copy(bytes, outputs.at("payload").flat<std::uint8_t>().begin());
  call.arguments.lengths.set("B", static_cast<std::int64_t>(bytes.size()));
  *outputs.at("format").flat<std::int32_t>().data() = sparse::format;

  const std::int64_t own_length = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> lengths(ranks);
  communicator.all_gather(&own_length, lengths.data(), std::vector<std::int64_t>(ranks, 1), Dtype::i64);
  std::vector<std::uint8_t> gathered(static_cast<std::size_t>(std::reduce(lengths.begin(), lengths.end())));
  communicator.all_gather(bytes.data(), gathered.data(), lengths, Dtype::u8);

  const passes::Out out = passes::outputs(outputs.at("update").view<float, 1>(), outputs.at("new_error").view<float, 1>(), nullptr);
  for (std::int64_t first = 0; first < n; first += block) passes::apply_nothing(grad.data() + first, error.data() + first, std::min(block, n - first), out.from(first));
  const std::vector<float> own_values = sparse::values_of(*picked);
  for (std::size_t j = 0; j < own_values.size(); ++j) {
    const auto i = static_cast<std::size_t>(picked->positions[j]);
    out.update[i] = own_values[j];
    out.new_error[i] = grad[i] + error[i] - own_values[j];
  }
  std::vector<Picks> all(ranks);
  std::size_t at = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto length = static_cast<std::size_t>(lengths[r]);
    sparse::Picked decoded = sparse::decode(std::span<const std::uint8_t>(gathered).subspan(at, length), n);
    all[r].values = sparse::values_of(decoded);
    all[r].positions = std::move(decoded.positions);
    at += length;
  }
  average_picks(all, outputs.at("average").flat<float>());
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
