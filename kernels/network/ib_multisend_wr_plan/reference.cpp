// The contract, step by step.
#include <algorithm>
#include <vector>

#include "kernels/network/ib_multisend_wr_plan/rules.h"

namespace faibench::ib_multisend_wr_plan::reference {
namespace {

struct Row {
  std::uint64_t group = 0;
  std::int64_t qp = 0;
  std::int32_t opcode = 0, flags = 0, num_sge = 0;
  std::uint64_t id = 0;
  std::int64_t next = -1;
  std::uint64_t sge_addr = 0;
  std::uint32_t sge_length = 0, sge_lkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0, imm = 0;
};

struct Match {
  std::int64_t send = -1;  // none yet
  std::int64_t size = 0;
};

std::int64_t queue_pairs_of_a_request(const Batch& b) { return b.split_on_qps ? b.qp_dev.extent(0) : b.n_data_qps; }

void post(const Batch& b, std::uint64_t id, std::int64_t s, const std::vector<Match>& matches, std::vector<Row>& rows) {
  const std::int64_t n = static_cast<std::int64_t>(matches.size()), nq = queue_pairs_of_a_request(b);
  const bool extra = n > 1 || (b.adaptive_routing == 1 && b.ooo_rq == 0 && matches[0].size > b.ar_threshold);
  const std::uint32_t imm = b.match_by_id ? static_cast<std::uint32_t>(id % 0xffffffffu) : static_cast<std::uint32_t>(matches[0].size);
  for (std::int64_t i = 0; i < nq; ++i) {
    const auto q = static_cast<std::int64_t>((id * static_cast<std::uint64_t>(nq) + static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(b.qp_dev.extent(0)));
    const std::int64_t d = b.qp_dev[q], e = b.qp_rem_dev[q];
    std::vector<Row> chain;
    for (std::int64_t r = 0; r < n; ++r) {
      const Match& match = matches[static_cast<std::size_t>(r)];
      const std::int64_t chunk = ((match.size + nq - 1) / nq + 127) / 128 * 128;
      const std::int64_t sent = std::min(i * chunk, match.size), length = std::min(chunk, match.size - sent);
      Row row;
      for (std::int64_t j = 0; j <= r; ++j) row.id += static_cast<std::uint64_t>(s & 255) << (8 * j);
      row.remote_addr = b.cts_addr(s, r) + static_cast<std::uint64_t>(sent);
      row.rkey = b.cts_rkeys(s, r, e);
      if (length > 0) {
        row.num_sge = 1;
        row.sge_addr = b.send_addr[match.send] + static_cast<std::uint64_t>(sent);
        row.sge_length = static_cast<std::uint32_t>(length);
        row.sge_lkey = b.lkeys(b.send_mr[match.send], d);
      }
      chain.push_back(row);
    }
    if (extra) {
      Row row;
      row.id = chain.back().id;
      if (n > 1) {
        row.num_sge = 1;
        row.sge_addr = b.report_addr + report_slot_bytes * static_cast<std::uint64_t>(s);
        row.sge_length = static_cast<std::uint32_t>(4 * n);
        row.sge_lkey = b.report_lkeys[d];
        row.remote_addr = b.remote_report_addr + report_slot_bytes * static_cast<std::uint64_t>(s);
        row.rkey = b.report_rkeys[d];
      }
      chain.push_back(row);
    }
    chain.back().opcode = 1;
    chain.back().imm = imm;
    chain.back().flags = 2;
    for (std::size_t p = 0; p < chain.size(); ++p) {
      chain[p].group = id;
      chain[p].qp = q;
      chain[p].next = p + 1 < chain.size() ? static_cast<std::int64_t>(rows.size()) + 1 : -1;
      rows.push_back(chain[p]);
    }
  }
}

}  // namespace

Rejected plan_sends(const Batch& b, Plan& plan) {
  const std::int64_t F = b.cts_idx.extent(0), N = b.send_addr.extent(0);
  std::vector<Row> rows;
  std::ranges::fill(plan.report.flat(), 0);
  std::uint64_t h = b.fifo_head;
  std::vector<Match> matches;
  for (std::int64_t k = 0; k < N; ++k) {
    const auto s = static_cast<std::int64_t>(h % static_cast<std::uint64_t>(F));
    plan.send_status[k] = no_credit;
    plan.send_id[k] = 0;
    plan.send_entry[k] = -1;
    plan.send_bytes[k] = 0;
    if (!slot_ready(b, s, h)) continue;
    const std::int64_t n = b.cts_nreqs[s];
    if (matches.empty()) matches.resize(static_cast<std::size_t>(n));
    std::int64_t r = 0;
    while (r < n && (matches[static_cast<std::size_t>(r)].send >= 0 || b.cts_tag(s, r) != b.send_tag[k])) ++r;
    if (r == n) {
      plan.send_status[k] = no_entry;
      continue;
    }
    const auto size = static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(b.send_size[k]), b.cts_size(s, r)));
    matches[static_cast<std::size_t>(r)] = {k, size};
    plan.send_status[k] = incomplete;
    plan.send_id[k] = h;
    plan.send_entry[k] = static_cast<std::int32_t>(r);
    plan.send_bytes[k] = size;
    plan.report(s, r) = static_cast<std::int32_t>(size);
    if (std::ranges::any_of(matches, [](const Match& match) { return match.send < 0; })) continue;
    post(b, h, s, matches, rows);
    for (const Match& match : matches) plan.send_status[match.send] = posted;
    matches.clear();
    ++h;
  }
  plan.credits = static_cast<std::int32_t>(credit_window(b).credits);
  plan.fifo_head_out = h;
  plan.next_qp = static_cast<std::int32_t>(h * static_cast<std::uint64_t>(queue_pairs_of_a_request(b)) % static_cast<std::uint64_t>(b.qp_dev.extent(0)));
  plan.rows = static_cast<std::int64_t>(rows.size());
  for (std::int64_t w = 0; w < plan.rows; ++w) {
    const Row& row = rows[static_cast<std::size_t>(w)];
    plan.wr_group[w] = row.group;
    plan.wr_qp[w] = static_cast<std::int32_t>(row.qp);
    plan.wr_opcode[w] = row.opcode;
    plan.wr_flags[w] = row.flags;
    plan.wr_num_sge[w] = row.num_sge;
    plan.wr_id[w] = row.id;
    plan.wr_next[w] = row.next;
    plan.sge_addr[w] = row.sge_addr;
    plan.sge_length[w] = row.sge_length;
    plan.sge_lkey[w] = row.sge_lkey;
    plan.remote_addr[w] = row.remote_addr;
    plan.rkey[w] = row.rkey;
    plan.imm[w] = row.imm;
  }
  return std::nullopt;
}

}  // namespace faibench::ib_multisend_wr_plan::reference
