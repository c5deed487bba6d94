// grad_signsgd_error_feedback: contract, cases, workloads, gate, floor.
#include "task/task.h"

#include <bit>
#include <cmath>
#include <limits>

#include "collectives/grad_signsgd_error_feedback/grad_signsgd_error_feedback.h"
#include "collectives/grad_signsgd_error_feedback/ranks.h"
#include "collectives/grad_signsgd_error_feedback/segments.h"

namespace faibench {
namespace grad_signsgd_error_feedback {

Rejected check_layout(const TensorRefMap& in) {
  const auto layout = in.at("layout").view<const std::int64_t, 2>();
  std::int64_t left = in.at("grad").size();
  for (std::int64_t i = 0; i < layout.extent(0); ++i) {
    for (std::int64_t k : {0, 1})
      if (layout(i, k) < 0) return reject("bad_layout", "layout", 2 * i + k, std::to_string(layout(i, k)), "it must not be negative");
    const std::int64_t rows = layout(i, 0), cols = layout(i, 1);
    if (cols > 0 && rows > left / cols) return reject("bad_layout", "layout", 2 * i, std::to_string(rows), "the products sum to more than n");
    left -= rows * cols;
  }
  if (left != 0) return reject("bad_layout", "layout", -1, to_string(in.at("layout").shape), "the products sum to " + std::to_string(left) + " less than n");
  return std::nullopt;
}

Rejected check_step(const TensorRefMap& in) {
  const auto step = in.at("step").scalar<std::int64_t>();
  return step >= 0 ? std::nullopt : Rejected(reject("bad_step", "step", -1, std::to_string(step), "it must be >= 0"));
}

namespace {

/// A payload of wire format 1 for n elements: random signs, scales as of gradients.
std::vector<std::uint8_t> random_payload(Random& random, std::int64_t n, bool zero_scales) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t first = 0; first < n; first += sign_block::block) {
    const std::int64_t m = std::min(sign_block::block, n - first);
    const float scale = zero_scales ? 0.0f : static_cast<float>(random.uniform(0.01, 2));
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(scale);
    for (int k = 0; k < 4; ++k) bytes.push_back(static_cast<std::uint8_t>(bits >> 8 * k));
    for (std::int64_t j = 0; j < m; j += 8) bytes.push_back(static_cast<std::uint8_t>(random.below(256) & ((1 << std::min<std::int64_t>(8, m - j)) - 1)));
  }
  return bytes;
}

TensorMap step(Random& random, std::int64_t n, std::int32_t others, std::int32_t rank, float error_scale = 1, bool zero_scales = false) {
  std::vector<float> grad(static_cast<std::size_t>(n)), error(static_cast<std::size_t>(n));
  random.fill_normal(grad);
  random.fill_normal(error, 0, error_scale);
  std::vector<std::uint8_t> peers;
  std::vector<std::int64_t> offsets{0};
  for (std::int32_t q = 0; q < others; ++q) {
    const auto one = random_payload(random, n, zero_scales);
    peers.insert(peers.end(), one.begin(), one.end());
    offsets.push_back(static_cast<std::int64_t>(peers.size()));
  }
  TensorMap inputs;
  inputs.add("grad", Tensor::of<float>({n}, grad));
  inputs.add("error", Tensor::of<float>({n}, error));
  inputs.add("state", Tensor(Dtype::u8, {0}));
  inputs.add("step", Tensor::scalar<std::int64_t>(7));
  inputs.add("layout", Tensor::of<std::int64_t>({1, 2}, {1, n}));
  inputs.add("rank", Tensor::scalar<std::int32_t>(rank));
  inputs.add("peers", Tensor::of<std::uint8_t>({static_cast<std::int64_t>(peers.size())}, peers));
  inputs.add("peer_offsets", Tensor::of<std::int64_t>({others + 1}, offsets));
  return inputs;
}

Case changed(std::string name, std::string note, std::int64_t n, std::int32_t others, std::function<void(TensorMap&)> change) {
  return {std::move(name), std::move(note), [=](Random& random) {
            TensorMap inputs = step(random, n, others, others / 2);
            change(inputs);
            return inputs;
          }};
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (std::int64_t n : {0, 1, 4095, 4096, 4097, 10001})
    for (std::int32_t others : {0, 2}) cases.push_back({"n" + std::to_string(n) + "_peers" + std::to_string(others), "size", [=](Random& random) { return step(random, n, others, others / 2); }});
  for (std::int32_t rank : {0, 2, 4}) cases.push_back({"rank" + std::to_string(rank) + "_of_5", "first, middle, last", [=](Random& random) { return step(random, 5000, 4, rank); }});
  cases.push_back({"peers_of_scale_0", "", [](Random& random) { return step(random, 4100, 3, 1, 1, true); }});
  cases.push_back({"error_larger_than_grad", "", [](Random& random) { return step(random, 9000, 1, 1, 1000); }});
  cases.push_back(changed("all_zero_block", "scale 0, update +0, error c", 8200, 1, [](TensorMap& in) {
    for (const char* name : {"grad", "error"}) std::fill_n(in.at(name).flat<float>().begin(), 4096, 0.0f);
  }));
  cases.push_back(changed("minus_zero", "-0 is not negative", 4096, 1, [](TensorMap& in) {
    for (const char* name : {"grad", "error"}) std::fill_n(in.at(name).flat<float>().begin(), 100, -0.0f);
  }));
  cases.push_back(changed("one_huge_element", "", 8192, 1, [](TensorMap& in) { in.at("grad").flat<float>()[4100] = -1e30f; }));
  cases.push_back(changed("subnormals", "", 5000, 0, [](TensorMap& in) {
    for (const char* name : {"grad", "error"})
      for (float& x : in.at(name).flat<float>()) x *= 1e-41f;
  }));
  cases.push_back(changed("near_the_end_of_f32", "", 4200, 0, [](TensorMap& in) {
    for (const char* name : {"grad", "error"})
      for (float& x : in.at(name).flat<float>()) x = std::copysign(1.6e38f, x);
  }));
  cases.push_back(changed("grad_is_minus_error", "c = 0 where grad + error cancel", 4096, 1, [](TensorMap& in) {
    for (std::size_t i = 0; i < 4096; i += 2) in.at("grad").flat<float>()[i] = -in.at("error").flat<float>()[i];
  }));
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  cases.push_back(changed("no_error", "missing_tensor", 10, 1, [](TensorMap& in) { in.erase("error"); }));
  cases.push_back(changed("extra", "unknown_tensor", 10, 1, [](TensorMap& in) { in.add("momentum", Tensor(Dtype::f32, {10})); }));
  cases.push_back(changed("grad_of_f64", "wrong_dtype", 10, 1, [](TensorMap& in) { in.at("grad") = Tensor(Dtype::f64, {10}); }));
  cases.push_back(changed("grad_of_rank_2", "wrong_rank", 10, 1, [](TensorMap& in) { in.at("grad") = Tensor(Dtype::f32, {5, 2}); }));
  cases.push_back(changed("short_error", "dim_mismatch", 10, 1, [](TensorMap& in) { in.at("error") = Tensor(Dtype::f32, {9}); }));
  cases.push_back(changed("offsets_end_early", "bad_offsets", 10, 1, [](TensorMap& in) { in.at("peer_offsets").flat<std::int64_t>()[1] -= 1; }));
  cases.push_back(changed("negative_rows", "bad_layout", 10, 1, [](TensorMap& in) { in.at("layout") = Tensor::of<std::int64_t>({1, 2}, {-1, -10}); }));
  cases.push_back(changed("layout_too_small", "bad_layout", 10, 1, [](TensorMap& in) { in.at("layout").flat<std::int64_t>()[1] = 9; }));
  cases.push_back(changed("layout_overflows", "bad_layout", 10, 1, [](TensorMap& in) { in.at("layout") = Tensor::of<std::int64_t>({1, 2}, {std::int64_t{1} << 62, 8}); }));
  cases.push_back(changed("step_minus_1", "bad_step", 10, 1, [](TensorMap& in) { in.at("step") = Tensor::scalar<std::int64_t>(-1); }));
  cases.push_back(changed("rank_minus_1", "bad_rank", 10, 1, [](TensorMap& in) { in.at("rank") = Tensor::scalar<std::int32_t>(-1); }));
  cases.push_back(changed("rank_past_the_last", "bad_rank", 10, 1, [](TensorMap& in) { in.at("rank") = Tensor::scalar<std::int32_t>(2); }));
  cases.push_back(changed("nan_in_grad", "nonfinite_grad before an earlier one in error", 5000, 1, [=](TensorMap& in) {
    in.at("grad").flat<float>()[4999] = nan;
    in.at("error").flat<float>()[0] = inf;
  }));
  cases.push_back(changed("inf_in_error", "nonfinite_error", 5000, 1, [=](TensorMap& in) { in.at("error").flat<float>()[4097] = -inf; }));
  cases.push_back(changed("sum_overflows", "error_overflow", 5000, 1, [](TensorMap& in) {
    for (const char* name : {"grad", "error"}) in.at(name).flat<float>()[17] = 3e38f;
  }));
  cases.push_back(changed("peer_too_short", "peer_size", 10, 1, [](TensorMap& in) {
    in.at("peers") = Tensor(Dtype::u8, {5});
    in.at("peer_offsets").flat<std::int64_t>()[1] = 5;
  }));
  for (int k : {0x7f, 0xff, 0x80}) cases.push_back(changed("peer_scale_" + std::to_string(k), "peer_scale: infinite, NaN, -0", 10, 1, [=](TensorMap& in) {
    const auto peers = in.at("peers").flat<std::uint8_t>();
    peers[0] = peers[1] = 0;
    peers[2] = k == 0x80 ? 0 : 0x80;
    peers[3] = static_cast<std::uint8_t>(k);
  }));
  cases.push_back(changed("peer_padding_set", "peer_padding", 10, 1, [](TensorMap& in) { in.at("peers").flat<std::uint8_t>()[5] |= 4; }));
  return cases;
}

TensorMap random_case(Random& random) {
  const std::int64_t n = random.chance(0.5) ? random.between(0, 300) : random.between(0, 13000);
  const auto others = static_cast<std::int32_t>(random.below(5));
  const float error_scale = random.chance(0.3) ? 0.0f : static_cast<float>(random.uniform(0, 20));
  return step(random, n, others, static_cast<std::int32_t>(random.below(others + 1)), error_scale);
}

Contract contract() {
  Contract c;
  c.input("grad", {Dtype::f32}, {"n"}, "this step's gradient bucket", "finite");
  c.input("error", {Dtype::f32}, {"n"}, "error carried from the step before", "finite");
  c.input("state", {Dtype::u8}, {"S"}, "opaque sender state; never reaches a receiver");
  c.input("step", {Dtype::i64}, {}, "step number", ">= 0");
  c.input("layout", {Dtype::i64}, {"L", "2"}, "rows, cols of each matrix in the bucket", "products sum to n");
  c.input("rank", {Dtype::i32}, {}, "own rank among Q+1", "0 .. Q");
  c.input("peers", {Dtype::u8}, {"P"}, "payloads of the Q other ranks, ascending, wire format 1");
  c.input("peer_offsets", {Dtype::i64}, {"Q+1"}, "where each begins").last_offset = Extent("P");
  c.output("format", {Dtype::i32}, {}, "wire format of payload: 1, or 128 and more");
  c.output("payload", {Dtype::u8}, {"4*n+64"}, "what this rank puts on the wire").length = "B";
  c.output("update", {Dtype::f32}, {"n"}, "decompress(payload)");
  c.output("average", {Dtype::f32}, {"n"}, "mean of all ranks' updates");
  c.output("new_error", {Dtype::f32}, {"n"}, "error for the next step");
  c.output("new_state", {Dtype::u8}, {"4*n+64"}, "state for the next step").length = "Z";
  c.rule("bad_layout", "a negative entry, or products do not sum to n", CheckedBy::runner, check_layout);
  c.rule("bad_step", "step < 0", CheckedBy::runner, check_step);
  c.rule("bad_rank", "rank < 0 or rank > Q", CheckedBy::runner, [](const TensorRefMap& in) -> Rejected {
    const auto rank = in.at("rank").scalar<std::int32_t>();
    const std::int64_t others = in.at("peer_offsets").size() - 1;
    return rank >= 0 && rank <= others ? std::nullopt : Rejected(reject("bad_rank", "rank", -1, std::to_string(rank), "it must lie in 0 .. " + std::to_string(others)));
  });
  c.rule("nonfinite_grad", "NaN or Inf in grad", CheckedBy::variant, check_grad);
  c.rule("nonfinite_error", "NaN or Inf in error", CheckedBy::variant, check_error);
  c.rule("error_overflow", "grad + error is not finite in f32", CheckedBy::variant, check_sum);
  c.rule("peer_size", "a peer payload's length is not that of format 1 for n", CheckedBy::variant, check_peer_sizes);
  c.rule("peer_scale", "a peer's scale is NaN, Inf or has its sign bit set", CheckedBy::variant, check_peer_scales);
  c.rule("peer_padding", "an unused bit in a peer's last sign byte of a block is 1", CheckedBy::variant, check_peer_padding);
  return c;
}

Task make() {
  Task task;
  task.name = "grad_signsgd_error_feedback";
  task.group = "collectives";
  task.summary = "Compress a gradient bucket to signs and keep the error for the next step";
  task.semantics = "c = grad + error; payload = compress(c); update = decompress(payload); new_error = c - update; average = mean of all ranks' updates in ascending rank, in f64.";
  task.contract = contract();
  const std::vector<std::string> names = {"grad", "error", "state", "step", "layout", "rank", "peers", "peer_offsets", "format", "payload", "update", "average", "new_error", "new_state", "B", "Z"};
  const std::vector<std::string> receiver = {"format", "payload", "n", "step", "layout", "update"};
  task.variants = {
      {"reference", Kernel({bind(reference::compress, names)}), "format 1, one element after another"},
      {"baseline", Kernel({bind(baseline::compress, names)}), "format 1 in scalar passes"},
      {"cpu", Kernel({bind(cpu::compress, names)}), "3 in 1000 elements by weighted size, their places, classes and signs by a range coder", Kernel({bind(cpu::decompress, receiver)})},
      {"cpu_dense", Kernel({bind(cpu_dense::compress, names)}), "format 1 in two passes by vectors: signs and sums, then update and error", Kernel({bind(cpu_dense::decompress, receiver)})},
      {"cpu_dense_short", Kernel({bind(cpu_dense_short::compress, names)}), "the same with scales of one byte: eighths of an octave below the largest", Kernel({bind(cpu_dense_short::decompress, receiver)})},
      on_device("cuda_baseline", "format 1, a kernel a pass", {"peer_offsets"}),
      on_device("cuda_dense", "format 1 in two launches: scales, then signs, update, error and mean at once", {"peer_offsets"}),
      on_device("cuda", "as cpu, a block and a coder for each 2^16 elements", {"peer_offsets"}),
  };
  task.variants.back().decoder = Kernel({bind(segments::decompress, receiver)});
  const auto part = [](std::int64_t n, std::int32_t others) { return Generator([=](Random& random) { return step(random, n, others, others / 2); }); };
  task.workloads = {
      {"smoke", "n = 10000, 3 steps, 2 ranks", {part(10000, 1)}, 1e-4},
      {"standard", "streams O (n = 2^16, 2048 steps) and C (n = 2^16, 768 steps of 4 ranks)", {part(1 << 16, 3)}, 1e-3},
      {"gpu", "stream O for time, n = 2^26, 64 steps", {part(std::int64_t{1} << 26, 0)}, 1},
  };
  task.cases = cases();
  task.random_case = random_case;
  task.gate.text = "per step: new_error = c - update within 2^-22*(|grad|+|error|+|update|) + 2^-126; norm of new_error <= (1+1e-6) * norm of c; average exact; format 1 exactly of its form";
  task.gate.needs_expected = false;
  task.gate.check = [](const GateCall& call) -> GateResult {
    if (auto bad = check_own(call.inputs.at("grad"), call.inputs.at("error"), call.outputs)) return bad;
    return check_average(call.inputs, call.outputs);
  };
  task.metric.text = "T*4n / payload bytes of the T steps, the smaller of streams O and C";
  task.metric.counts_time = false;
  task.metric.objective = [](const TensorRefMap& inputs, const TensorRefMap& outputs) { return std::max(1.0, static_cast<double>(outputs.at("payload").bytes())) / std::max(1.0, 4.0 * static_cast<double>(inputs.at("grad").size())); };
  task.floor = [](const TensorRefMap& inputs) { return Floor{20.0 * static_cast<double>(inputs.at("grad").size()) + static_cast<double>(inputs.at("peers").bytes()), 0}; };
  task.floor_text = "16n bytes for grad, error, update, new_error, 4n for average, the peers' payloads";
  task.stream = many_steps();
  task.multi_rank = multi_rank();
  return task;
}

}  // namespace
}  // namespace grad_signsgd_error_feedback

namespace tasks {
const Task& grad_signsgd_error_feedback() {
  static const Task task = faibench::grad_signsgd_error_feedback::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
