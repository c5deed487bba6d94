// One stage a segment of whole blocks: while the payloads of segment k travel, k+1 is compressed and k-1 is decoded and averaged. The length of a format 1 payload follows from n, so no
// lengths are exchanged. A block (16 KiB) stays in the first cache from grad + error to new_error, and again from the first rank's bits to the average.
//  - Ranks agree before anything is written: one pass that only looks for Inf and NaN, then one reduction of seven numbers.
//  - Payloads of a segment are added when all of them are there, in ascending rank, f64: equal bits on all ranks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/ranks.h"
#include "communicator/communicator.h"
#include "schedule/executor.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

constexpr int depth = 2;
constexpr std::int64_t segment_blocks = 128;      // 64.5 KiB on the wire
constexpr std::int64_t log_step_bytes = 8 << 10;  // below this fewer messages count more than bytes sent once

enum Code : std::int64_t { none, bad_layout, bad_step, nonfinite_grad, nonfinite_error, error_overflow };
constexpr const char* code_names[] = {"", "bad_layout", "bad_step", "nonfinite_grad", "nonfinite_error", "error_overflow"};

struct Fault {
  Code code = none;
  const char* tensor = "";
  std::int64_t index = -1;
  std::string value;
};

Fault layout_fault(View<const std::int64_t, 2> layout, std::int64_t n) {
  std::int64_t left = n;
  for (std::int64_t i = 0; i < layout.extent(0); ++i) {
    const std::int64_t rows = layout(i, 0), cols = layout(i, 1);
    if (rows < 0 || cols < 0) return {bad_layout, "layout", rows < 0 ? 2 * i : 2 * i + 1, std::to_string(std::min(rows, cols))};
    if (cols > 0 && rows > left / cols) return {bad_layout, "layout", 2 * i, std::to_string(rows)};
    left -= rows * cols;
  }
  return left == 0 ? Fault{} : Fault{bad_layout, "layout", -1, std::to_string(left) + " elements left"};
}

/// Which of the three rules on data, and where: called where the fast look found something.
Fault data_fault(std::span<const float> grad, std::span<const float> error) {
  for (std::size_t i = 0; i < grad.size(); ++i)
    if (!std::isfinite(grad[i])) return {nonfinite_grad, "grad", static_cast<std::int64_t>(i), std::to_string(grad[i])};
  for (std::size_t i = 0; i < error.size(); ++i)
    if (!std::isfinite(error[i])) return {nonfinite_error, "error", static_cast<std::int64_t>(i), std::to_string(error[i])};
  for (std::size_t i = 0; i < grad.size(); ++i)
    if (!std::isfinite(grad[i] + error[i])) return {error_overflow, "error", static_cast<std::int64_t>(i), std::to_string(error[i])};
  return {};
}

/// The bits of Inf and NaN without sign are the largest integers; what is added is finite only if both terms are.
bool all_finite(std::span<const float> grad, std::span<const float> error) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < grad.size(); ++i) most = std::max(most, std::bit_cast<std::int32_t>(grad[i] + error[i]) & 0x7fffffff);
  return most < 0x7f800000;
}

Rejected agree(Communicator& communicator, const TensorRefMap& inputs) {
  const auto grad = inputs.at("grad").flat<const float>(), error = inputs.at("error").flat<const float>();
  const auto layout = inputs.at("layout").view<const std::int64_t, 2>();
  const auto step = inputs.at("step").scalar<std::int64_t>();
  const auto n = static_cast<std::int64_t>(grad.size());
  Fault fault = layout_fault(layout, n);
  if (fault.code == none && step < 0) fault = {bad_step, "step", -1, std::to_string(step)};
  if (fault.code == none && !all_finite(grad, error)) fault = data_fault(grad, error);
  std::uint64_t hash = 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(layout.extent(0) + 1);
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(layout.data()[i])) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
  }
  // The largest first value belongs to the lowest rank that has a code; a value and its negative show where ranks differ.
  const std::int64_t ranks = communicator.size(), own_step = std::max<std::int64_t>(step, 0), mixed = static_cast<std::int64_t>(hash >> 1);
  std::int64_t values[7] = {fault.code == none ? 0 : (ranks - communicator.rank()) * 8 + fault.code, n, own_step, mixed, -n, -own_step, -mixed};
  if (ranks > 1) communicator.all_reduce(values, values, std::size(values), Dtype::i64, Reduce::max);
  if (values[0] != 0) {
    const std::int64_t at_fault = ranks - values[0] / 8;
    const std::string where = "on rank " + std::to_string(at_fault);
    if (at_fault == communicator.rank()) return reject(code_names[fault.code], fault.tensor, fault.index, fault.value, where);
    return reject(code_names[values[0] % 8], "grad", -1, "not this rank's", where);
  }
  const char* const names[] = {"grad", "step", "layout"};
  for (int k = 0; k < 3; ++k)
    if (values[1 + k] != -values[4 + k]) return reject("rank_mismatch", names[k], -1, "not the same on all ranks", "n, step or layout differs between ranks");
  return std::nullopt;
}

/// One block of m elements: payload, update, new_error.
void compress_block(const float* grad, const float* error, std::int64_t m, std::uint8_t* payload, float* update, float* new_error) {
  alignas(64) float c[sign_block::block];
  constexpr std::int64_t lanes = 16;  // sums that do not wait for one another
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= m; i += lanes)
    for (std::int64_t k = 0; k < lanes; ++k) {
      c[i + k] = grad[i + k] + error[i + k];
      sums[k] += std::abs(c[i + k]);
    }
  double sum = 0;
  for (; i < m; ++i) sum += std::abs(c[i] = grad[i] + error[i]);
  for (const double part : sums) sum += part;
  const auto scale = static_cast<float>(sum / static_cast<double>(m));
  const std::uint32_t scale_bits = std::bit_cast<std::uint32_t>(scale);
  std::memcpy(payload, &scale, 4);
  payload += 4;
  for (i = 0; i + 8 <= m; i += 8) {
    unsigned bits = 0;
    for (int k = 0; k < 8; ++k) bits |= static_cast<unsigned>(c[i + k] < 0) << k;
    payload[i / 8] = static_cast<std::uint8_t>(bits);
  }
  if (i < m) {
    unsigned bits = 0;
    for (std::int64_t k = i; k < m; ++k) bits |= static_cast<unsigned>(c[k] < 0) << (k - i);
    payload[i / 8] = static_cast<std::uint8_t>(bits);
  }
  for (i = 0; i < m; ++i) {
    update[i] = std::bit_cast<float>(scale_bits | static_cast<std::uint32_t>(c[i] < 0) << 31);
    new_error[i] = c[i] - update[i];
  }
}

/// The mean of one block's payloads of all ranks, `stride` bytes apart.
void average_block(const std::uint8_t* payloads, std::int64_t stride, int ranks, std::int64_t m, float* average) {
  alignas(64) double sum[sign_block::block];
  std::fill_n(sum, m, 0.0);
  for (int r = 0; r < ranks; ++r) {
    const std::uint8_t* bytes = payloads + r * stride;
    float scale;
    std::memcpy(&scale, bytes, 4);
    bytes += 4;
    const std::uint64_t scale_bits = std::bit_cast<std::uint64_t>(static_cast<double>(scale));
    std::int64_t j = 0;
    for (; j + 8 <= m; j += 8) {
      const std::uint64_t signs = bytes[j / 8];
      for (int k = 0; k < 8; ++k) sum[j + k] += std::bit_cast<double>(scale_bits | (signs >> k & 1) << 63);
    }
    for (; j < m; ++j) sum[j] += std::bit_cast<double>(scale_bits | static_cast<std::uint64_t>(bytes[j / 8] >> (j % 8) & 1) << 63);
  }
  for (std::int64_t j = 0; j < m; ++j) average[j] = static_cast<float>(sum[j] / static_cast<double>(ranks));
}

}  // namespace

AllGather gather_algorithm(std::int64_t bytes, int ranks) { return ranks > 4 && bytes < log_step_bytes ? AllGather::log_step : AllGather::direct; }

Rejected run_in_segments(MultiRank::Call& call, std::int64_t blocks) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& inputs = call.arguments.inputs;
  if (Rejected rejected = agree(communicator, inputs)) return rejected;
  const float* const grad = inputs.at("grad").flat<const float>().data();
  const float* const error = inputs.at("error").flat<const float>().data();
  std::uint8_t* const payload = call.arguments.outputs.at("payload").flat<std::uint8_t>().data();
  float* const update = call.arguments.outputs.at("update").flat<float>().data();
  float* const average = call.arguments.outputs.at("average").flat<float>().data();
  float* const new_error = call.arguments.outputs.at("new_error").flat<float>().data();
  const std::int64_t n = inputs.at("grad").size(), segment = blocks * sign_block::block;
  const int ranks = communicator.size();
  constexpr std::int64_t block = sign_block::block, block_bytes = 4 + block / 8;

  const auto compress = [=](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first; at < last; at += block)
      compress_block(grad + at, error + at, std::min(block, last - at), payload + at / block * block_bytes, update + at, new_error + at);
  };
  const auto decode = [=](const std::uint8_t* gathered, std::int64_t stride, std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first; at < last; at += block) average_block(gathered + (at - first) / block * block_bytes, stride, ranks, std::min(block, last - at), average + at);
  };
  if (ranks == 1) {
    for (std::int64_t first = 0; first < n; first += block) {
      const std::int64_t last = std::min(n, first + block);
      compress(first, last);
      decode(payload + first / block * block_bytes, 0, first, last);
    }
    return std::nullopt;
  }

  constexpr std::size_t slots = depth + 1;
  const std::int64_t room = sign_block::bytes_of(std::min(n, segment)) * ranks;
  const auto storage = std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(room) * slots);
  const AllGather algorithm = gather_algorithm(sign_block::bytes_of(n), ranks);
  std::vector<std::unique_ptr<Schedule>> schedules;
  std::vector<Stage> stages;
  for (std::int64_t first = 0; first < n; first += segment) {
    const std::int64_t last = std::min(n, first + segment), bytes = sign_block::bytes_of(last - first);
    std::uint8_t* const gathered = storage.get() + static_cast<std::size_t>(room) * (stages.size() % slots);
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks), bytes);
    schedules.push_back(all_gather_schedule(algorithm, counts, communicator.nodes(), 1));
    BufferBases bases{};
    bases[static_cast<std::size_t>(Buffer::input)] = payload + first / block * block_bytes;
    bases[static_cast<std::size_t>(Buffer::output)] = gathered;
    stages.push_back({schedules.back().get(), bases, [=] { compress(first, last); }, [=] { decode(gathered, bytes, first, last); }});
  }
  execute_pipelined(stages, depth, communicator, [](std::size_t, const SumCall& copy) { std::memcpy(copy.into, copy.terms[0].data, static_cast<std::size_t>(copy.count)); });
  return std::nullopt;
}

Rejected run_mpi(MultiRank::Call& call) { return run_in_segments(call, segment_blocks); }

}  // namespace faibench::grad_signsgd_error_feedback
