// ib_multisend_wr_plan: contract, workloads, gate, floor.
#include "task/task.h"

#include "kernels/network/ib_multisend_wr_plan/cases.h"
#include "kernels/network/ib_multisend_wr_plan/rules.h"

namespace faibench {
namespace ib_multisend_wr_plan {
namespace {

Plan plan_of(TensorRefMap& outputs, std::int64_t& rows) {
  const auto u64 = [&](const char* name) { return outputs.at(name).view<std::uint64_t, 1>(); };
  const auto i64 = [&](const char* name) { return outputs.at(name).view<std::int64_t, 1>(); };
  const auto u32 = [&](const char* name) { return outputs.at(name).view<std::uint32_t, 1>(); };
  const auto i32 = [&](const char* name) { return outputs.at(name).view<std::int32_t, 1>(); };
  return {u64("wr_group"), i32("wr_qp"), i32("wr_opcode"), i32("wr_flags"), i32("wr_num_sge"), u64("wr_id"), i64("wr_next"), u64("sge_addr"), u32("sge_length"), u32("sge_lkey"), u64("remote_addr"),
          u32("rkey"), u32("imm"), i32("send_status"), u64("send_id"), i32("send_entry"), i64("send_bytes"), outputs.at("report").view<std::int32_t, 2>(), outputs.at("credits").flat<std::int32_t>()[0],
          outputs.at("fifo_head_out").flat<std::uint64_t>()[0], outputs.at("next_qp").flat<std::int32_t>()[0], rows};
}

/// Makes a typed variant callable. `rules`: checked before it, null where it does so itself.
Kernel kernel_of(Rejected (*plan_sends)(const Batch&, Plan&), const Contract* rules = nullptr) {
  return Kernel({{[](const TensorRefMap&, const TensorRefMap&) { return true; },
                  [plan_sends, rules](Arguments& arguments) -> Rejected {
                    if (rules)
                      if (Rejected rejected = rules->check_rules(arguments.inputs, CheckedBy::variant)) return rejected;
                    std::int64_t rows = 0;
                    Plan plan = plan_of(arguments.outputs, rows);
                    Rejected rejected = plan_sends(batch_of(arguments.inputs), plan);
                    arguments.lengths.set("W", rows);
                    return rejected;
                  }}});
}

const Contract& the_rules() {
  static const Contract rules = [] {
    Contract c;
    add_rules(c);
    return c;
  }();
  return rules;
}

Contract contract() {
  Contract c;
  c.input("fifo_head", {Dtype::u64}, {}, "cursor: id of the next request group; slot = id mod F", "any");
  c.input("qp_dev", {Dtype::i32}, {"Q"}, "local device of each queue pair", "0 .. L-1; 1 <= Q <= 128");
  c.input("qp_rem_dev", {Dtype::i32}, {"Q"}, "remote device of each queue pair", "0 .. R-1");
  c.input("split_on_qps", {Dtype::i32}, {}, "1: each request is spread over all Q; 0: over n_data_qps", "0 or 1");
  c.input("n_data_qps", {Dtype::i32}, {}, "queue pairs of a request", "1 .. Q");
  c.input("adaptive_routing", {Dtype::i32}, {}, "1: large single requests are followed by a write of their own with the immediate", "0 or 1");
  c.input("ooo_rq", {Dtype::i32}, {}, "1: both sides have out-of-order receive queues", "0 or 1");
  c.input("match_by_id", {Dtype::i32}, {}, "1: the immediate carries the id", "0 or 1");
  c.input("ar_threshold", {Dtype::i64}, {}, "bytes beyond which adaptive routing matters", ">= 0");
  c.input("cts_idx", {Dtype::u64}, {"F", "E"}, "id + 1 once the entry is written", "1 <= F <= 65536, E = 8");
  c.input("cts_addr", {Dtype::u64}, {"F", "E"}, "remote address", "not 0 where in use");
  c.input("cts_size", {Dtype::u64}, {"F", "E"}, "bytes of the remote buffer", "address + size <= 2^64 where in use");
  c.input("cts_tag", {Dtype::u32}, {"F", "E"}, "tag", "any");
  c.input("cts_rkeys", {Dtype::u32}, {"F", "E", "R"}, "remote keys by remote device", "1 <= R <= 8; the first not 0 where in use");
  c.input("cts_nreqs", {Dtype::u32}, {"F"}, "entries in use of the slot", "1 .. 8 where it has arrived");
  c.input("send_addr", {Dtype::u64}, {"N"}, "local address of the data", "not 0 where there are bytes; no wrap");
  c.input("send_size", {Dtype::i64}, {"N"}, "bytes", "0 .. 2^31-1");
  c.input("send_tag", {Dtype::u32}, {"N"}, "tag", "any");
  c.input("send_mr", {Dtype::i32}, {"N"}, "row of lkeys", "0 .. M-1");
  c.input("lkeys", {Dtype::u32}, {"M", "L"}, "local keys of each region on each device", "1 <= L <= 8");
  c.input("report_addr", {Dtype::u64}, {}, "size report array, local: 8 i32 a slot", "not 0");
  c.input("remote_report_addr", {Dtype::u64}, {}, "size report array, remote", "not 0");
  c.input("report_lkeys", {Dtype::u32}, {"L"}, "local keys of the report, by local device", "any");
  c.input("report_rkeys", {Dtype::u32}, {"L"}, "remote keys of the report, by local device", "any");
  const auto column = [&](const char* name, Dtype dtype, const char* meaning) { c.output(name, {dtype}, {"2*N*Q"}, meaning).length = "W"; };
  column("wr_group", Dtype::u64, "id of the group; rows by group, queue pair in posting order, position in the chain");
  column("wr_qp", Dtype::i32, "queue pair");
  column("wr_opcode", Dtype::i32, "0 RDMA write, 1 RDMA write with immediate");
  column("wr_flags", Dtype::i32, "2 signaled, else 0");
  column("wr_num_sge", Dtype::i32, "0 or 1");
  column("wr_id", Dtype::u64, "sum over j <= r of (slot & 255) << 8j");
  column("wr_next", Dtype::i64, "row of the next in the chain, -1 at its end");
  column("sge_addr", Dtype::u64, "0 without an SGE, as the next two");
  column("sge_length", Dtype::u32, "bytes");
  column("sge_lkey", Dtype::u32, "local key");
  column("remote_addr", Dtype::u64, "where it goes");
  column("rkey", Dtype::u32, "remote key");
  column("imm", Dtype::u32, "immediate in host order; 0 on plain writes");
  c.output("send_status", {Dtype::i32}, {"N"}, "0 no credit, 1 no entry with the tag, 2 matched in an incomplete group, 3 posted");
  c.output("send_id", {Dtype::u64}, {"N"}, "group id; 0 for status 0 and 1");
  c.output("send_entry", {Dtype::i32}, {"N"}, "entry; -1 for status 0 and 1");
  c.output("send_bytes", {Dtype::i64}, {"N"}, "size, clamped to the remote buffer; 0 for status 0 and 1");
  c.output("report", {Dtype::i32}, {"F", "E"}, "local size report after the call, 0 where nothing matched");
  c.output("credits", {Dtype::i32}, {}, "slots from fifo_head on that are ready");
  c.output("fifo_head_out", {Dtype::u64}, {}, "advanced cursor");
  c.output("next_qp", {Dtype::i32}, {}, "queue pair of the next group's first chain");
  add_rules(c);
  return c;
}

Task make() {
  Task task;
  task.name = "ib_multisend_wr_plan";
  task.group = "network";
  task.summary = "Turns pending sends and clear-to-send entries into chains of RDMA work requests";
  task.semantics =
      "Sends are matched in order to the first free entry with their tag of the slot at the cursor; a slot whose entries are all matched is posted and the cursor moves on. "
      "A group is posted on nq queue pairs, one chain each: a plain write of each entry's next chunk (ceil(ceil(size/nq)/128)*128 bytes, in entry order), and last a signaled write with immediate: "
      "the only request itself, or, for several entries or large adaptively routed ones, one more row, which carries the size report of several entries.";
  task.contract = contract();
  task.variants = {
      {"reference", kernel_of(reference::plan_sends, &the_rules()), "the contract, row by row"},
      {"baseline", kernel_of(baseline::plan_sends), "lengths and offsets found anew for each row, fields appended to growing arrays"},
      {"cpu", kernel_of(cpu::plan_sends), "sends matched first; then all threads write chains of the groups, eight entries at once, through cached blocks past the caches"},
  };
  task.workloads = {
      {"smoke", "6 sends, Q = 4, F = 8", {small_batch}, 2e-6},
      {"standard",
       "F = 32768, all slots ready, Q = 16 over L = R = 2, split; 1 entry (60 %), 2-4 (25 %), 8 (15 %); sizes log-uniform 1 .. 2^22, 5 % zero; adaptive routing on, threshold 8192; sends of a group in "
       "random order, 2 % more whose tag does not match",
       {[](Random& random) { return long_batch(random, 32768, 16, 0); }},
       0.15},
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate = exact_gate();
  task.gate.text = "exact, all outputs";
  task.floor = [](const TensorRefMap& inputs) {
    const Batch b = batch_of(inputs);
    const auto nq = static_cast<double>(b.split_on_qps ? b.qp_dev.extent(0) : b.n_data_qps);
    double rows = 0, entries_read = 0;  // as if every send were posted: fewer are where tags or credits lack
    std::int64_t sends = b.send_addr.extent(0);
    for (std::int64_t c = 0, F = b.cts_idx.extent(0); c < F && sends > 0; ++c) {
      const auto s = static_cast<std::int64_t>((b.fifo_head + static_cast<std::uint64_t>(c)) % static_cast<std::uint64_t>(F));
      if (!slot_ready(b, s, b.fifo_head + static_cast<std::uint64_t>(c)) || b.cts_nreqs[s] > sends) break;
      rows += nq * (b.cts_nreqs[s] > 1 ? b.cts_nreqs[s] + 1 : 1);
      entries_read += b.cts_nreqs[s];
      sends -= b.cts_nreqs[s];
    }
    const double per_entry = 8 + 8 + 8 + 4 + 4 * static_cast<double>(b.cts_rkeys.extent(2));
    return Floor{76 * rows + per_entry * entries_read + (8 + 8 + 4 + 4 + 4 + 8 + 4 + 8) * static_cast<double>(b.send_addr.extent(0)) + 32 * static_cast<double>(b.cts_idx.extent(0)), 0};
  };
  task.floor_text = "76 bytes written a row (the extra rows of single requests not counted), entries in use and sends read once, 24 bytes a send and the size report written";
  return task;
}

}  // namespace

Batch batch_of(const TensorRefMap& inputs) {
  const auto u64 = [&](const char* name) { return inputs.at(name).view<const std::uint64_t, 1>(); };
  const auto table = [&](const char* name) { return inputs.at(name).view<const std::uint64_t, 2>(); };
  const auto u32 = [&](const char* name) { return inputs.at(name).view<const std::uint32_t, 1>(); };
  const auto i32 = [&](const char* name) { return inputs.at(name).view<const std::int32_t, 1>(); };
  const auto flag = [&](const char* name) { return inputs.at(name).scalar<std::int32_t>(); };
  return {inputs.at("fifo_head").scalar<std::uint64_t>(), i32("qp_dev"), i32("qp_rem_dev"), flag("split_on_qps"), flag("n_data_qps"), flag("adaptive_routing"), flag("ooo_rq"), flag("match_by_id"),
          inputs.at("ar_threshold").scalar<std::int64_t>(), table("cts_idx"), table("cts_addr"), table("cts_size"), inputs.at("cts_tag").view<const std::uint32_t, 2>(),
          inputs.at("cts_rkeys").view<const std::uint32_t, 3>(), u32("cts_nreqs"), u64("send_addr"), inputs.at("send_size").view<const std::int64_t, 1>(), u32("send_tag"), i32("send_mr"),
          inputs.at("lkeys").view<const std::uint32_t, 2>(), inputs.at("report_addr").scalar<std::uint64_t>(), inputs.at("remote_report_addr").scalar<std::uint64_t>(), u32("report_lkeys"),
          u32("report_rkeys")};
}

}  // namespace ib_multisend_wr_plan

namespace tasks {
const Task& ib_multisend_wr_plan() {
  static const Task task = faibench::ib_multisend_wr_plan::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
