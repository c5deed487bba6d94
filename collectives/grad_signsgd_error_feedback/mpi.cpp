// Ranks agree before anything is written: one pass that makes signs and scales and sees Inf and NaN on the way, then one reduction of seven numbers. By then the whole payload is ready.
// One stage a segment of whole blocks: while the payloads of segments k+1 and k+2 travel, k's update, new_error and average are made, a block at a time in the first cache. The length of
// a format 1 payload follows from n, so no lengths are exchanged.
//  - Payloads of a segment are added when all of them are there, in ascending rank, f64: equal bits on all ranks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/dense.h"
#include "collectives/grad_signsgd_error_feedback/passes.h"
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

}  // namespace

Rejected agree(Communicator& communicator, const TensorRefMap& inputs, std::int32_t format, bool finite) {
  const auto grad = inputs.at("grad").flat<const float>(), error = inputs.at("error").flat<const float>();
  const auto layout = inputs.at("layout").view<const std::int64_t, 2>();
  const auto step = inputs.at("step").scalar<std::int64_t>();
  const auto n = static_cast<std::int64_t>(grad.size());
  Fault fault = layout_fault(layout, n);
  if (fault.code == none && step < 0) fault = {bad_step, "step", -1, std::to_string(step)};
  if (fault.code == none && !finite) fault = data_fault(grad, error);
  std::uint64_t hash = 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(layout.extent(0) + 1 + (std::int64_t{format} << 32));
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
  const char* const names[] = {"grad", "step", "layout"};  // the third also where formats differ
  for (int k = 0; k < 3; ++k)
    if (values[1 + k] != -values[4 + k]) return reject("rank_mismatch", names[k], -1, "not the same on all ranks", "n, step, layout or format differs between ranks");
  return std::nullopt;
}

AllGather gather_algorithm(std::int64_t bytes, int ranks) { return ranks > 4 && bytes < log_step_bytes ? AllGather::log_step : AllGather::direct; }

Rejected run_in_segments(MultiRank::Call& call, std::int64_t blocks) {
  Communicator& communicator = call.communicator;
  const TensorRefMap& inputs = call.arguments.inputs;
  const auto grads = inputs.at("grad").flat<const float>(), errors = inputs.at("error").flat<const float>();
  dense::Signs signs = dense::look(grads, errors, 1);
  if (Rejected rejected = agree(communicator, inputs, sign_block::format, signs.finite)) return rejected;
  const float *const grad = grads.data(), *const error = errors.data();
  TensorRefMap& outputs = call.arguments.outputs;
  std::uint8_t* const payload = outputs.at("payload").flat<std::uint8_t>().data();
  float* const average = outputs.at("average").flat<float>().data();
  const passes::Out out = passes::outputs(outputs.at("update").view<float, 1>(), outputs.at("new_error").view<float, 1>(), nullptr);
  const std::int64_t n = inputs.at("grad").size(), segment = blocks * sign_block::block;
  const int ranks = communicator.size();
  constexpr std::int64_t block = sign_block::block, block_bytes = 4 + block / 8;
  std::vector<float> scales(signs.means.size());
  call.arguments.lengths.set("B", dense::write_format_1(signs, n, payload, scales));
  *outputs.at("format").flat<std::int32_t>().data() = sign_block::format;
  signs.bits.reset();

  // update and new_error of [first, last), then the average of all ranks' payloads, which lie `stride` bytes apart.
  const auto apply = [&](const std::uint8_t* gathered, std::int64_t stride, std::int64_t first, std::int64_t last) {
    std::vector<passes::Term> terms(static_cast<std::size_t>(ranks));
    for (std::int64_t at = first; at < last; at += block) {
      const std::int64_t m = std::min(block, last - at);
      passes::apply_signs(grad + at, error + at, m, payload + at / block * block_bytes + 4, scales[static_cast<std::size_t>(at / block)], out.from(at));
      for (int r = 0; r < ranks; ++r) {
        const std::uint8_t* const bytes = gathered + r * stride + (at - first) / block * block_bytes;
        passes::Term& term = terms[static_cast<std::size_t>(r)] = {nullptr, bytes + 4, 0};
        std::memcpy(&term.scale, bytes, 4);
      }
      passes::mean(terms.data(), ranks, m, average + at);
    }
  };
  if (ranks == 1) {
    apply(payload, 0, 0, n);
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
    stages.push_back({schedules.back().get(), bases, {}, [=, &apply] { apply(gathered, bytes, first, last); }});
  }
  execute_pipelined(stages, depth, communicator, [](std::size_t, const SumCall& copy) { std::memcpy(copy.into, copy.terms[0].data, static_cast<std::size_t>(copy.count)); });
  return std::nullopt;
}

Rejected run_mpi(MultiRank::Call& call) { return run_in_segments(call, segment_blocks); }

}  // namespace faibench::grad_signsgd_error_feedback
