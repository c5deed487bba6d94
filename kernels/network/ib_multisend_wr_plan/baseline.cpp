// Sends in order, entries searched one by one; at posting nothing is kept from one queue pair to the next, and rows grow field by field.
#include <algorithm>
#include <vector>

#include "kernels/network/ib_multisend_wr_plan/ib_multisend_wr_plan.h"

namespace faibench::ib_multisend_wr_plan::baseline {
namespace {

struct Rows {
  std::vector<std::uint64_t> group;
  std::vector<std::int32_t> qp, opcode, flags, num_sge;
  std::vector<std::uint64_t> id;
  std::vector<std::int64_t> next;
  std::vector<std::uint64_t> sge_addr;
  std::vector<std::uint32_t> sge_length, sge_lkey;
  std::vector<std::uint64_t> remote_addr;
  std::vector<std::uint32_t> rkey, imm;
  std::vector<int> entry;  // whose data the row carries, -1: none
};

Rejected check_sends(const Batch& b) {
  const std::int64_t N = b.send_addr.extent(0);
  for (std::int64_t k = 0; k < N; ++k)
    if (b.send_mr[k] < 0 || b.send_mr[k] >= b.lkeys.extent(0)) return reject("bad_mr", "send_mr", k, std::to_string(b.send_mr[k]), "there are " + std::to_string(b.lkeys.extent(0)) + " memory regions");
  for (std::int64_t k = 0; k < N; ++k)
    if (b.send_size[k] < 0) return reject("negative_size", "send_size", k, std::to_string(b.send_size[k]), "sizes are not negative");
  for (std::int64_t k = 0; k < N; ++k)
    if (b.send_size[k] > 0x7fffffff) return reject("size_too_large", "send_size", k, std::to_string(b.send_size[k]), "more than 2^31-1");
  for (std::int64_t k = 0; k < N; ++k)
    if (b.send_addr[k] == 0 && b.send_size[k] > 0) return reject("null_send_addr", "send_addr", k, "0", "the send has " + std::to_string(b.send_size[k]) + " bytes");
  for (std::int64_t k = 0; k < N; ++k) {
    const std::uint64_t size = static_cast<std::uint64_t>(b.send_size[k]), end = b.send_addr[k] + size;
    if (end < size && end != 0) return reject("send_wraps", "send_addr", k, std::to_string(b.send_addr[k]), std::to_string(size) + " bytes more pass 2^64");
  }
  return std::nullopt;
}

bool ready(const Batch& b, std::int64_t s, std::uint64_t id) {
  if (b.cts_idx(s, 0) != id + 1) return false;
  for (std::uint32_t r = 1; r < b.cts_nreqs[s]; ++r)
    if (b.cts_idx(s, r) != id + 1) return false;
  return true;
}

Rejected walk_credits(const Batch& b, std::int32_t& credits) {
  const std::int64_t F = b.cts_idx.extent(0);
  credits = 0;
  for (std::uint64_t id = b.fifo_head; credits < F; ++id, ++credits) {
    const std::int64_t s = static_cast<std::int64_t>(id % static_cast<std::uint64_t>(F));
    if (b.cts_idx(s, 0) != id + 1) break;
    if (b.cts_nreqs[s] < 1 || b.cts_nreqs[s] > entries) return reject("bad_nreqs", "cts_nreqs", s, std::to_string(b.cts_nreqs[s]), "a slot has 1 to 8 entries");
    if (!ready(b, s, id)) break;
  }
  const auto in_window = [&](auto&& check) -> Rejected {
    for (std::int32_t c = 0; c < credits; ++c) {
      const std::int64_t s = static_cast<std::int64_t>((b.fifo_head + static_cast<std::uint64_t>(c)) % static_cast<std::uint64_t>(F));
      for (std::uint32_t r = 0; r < b.cts_nreqs[s]; ++r)
        if (Rejected rejected = check(s, r)) return rejected;
    }
    return std::nullopt;
  };
  if (Rejected rejected = in_window([&](std::int64_t s, std::uint32_t r) -> Rejected {
        if (b.cts_addr(s, r) != 0) return std::nullopt;
        return reject("cts_null_addr", "cts_addr", s * entries + r, "0", "the entry is in use");
      }))
    return rejected;
  if (Rejected rejected = in_window([&](std::int64_t s, std::uint32_t r) -> Rejected {
        if (b.cts_rkeys(s, r, 0) != 0) return std::nullopt;
        return reject("cts_zero_rkey", "cts_rkeys", (s * entries + r) * b.cts_rkeys.extent(2), "0", "the entry is in use");
      }))
    return rejected;
  return in_window([&](std::int64_t s, std::uint32_t r) -> Rejected {
    const std::uint64_t end = b.cts_addr(s, r) + b.cts_size(s, r);
    if (end >= b.cts_size(s, r) || end == 0) return std::nullopt;
    return reject("cts_wraps", "cts_addr", s * entries + r, std::to_string(b.cts_addr(s, r)), std::to_string(b.cts_size(s, r)) + " bytes more pass 2^64");
  });
}

struct Request {
  std::int64_t send;
  std::int64_t size;
};

void append(Rows& rows, std::uint64_t group, std::int32_t qp, std::uint64_t id) {
  rows.group.push_back(group);
  rows.qp.push_back(qp);
  rows.opcode.push_back(0);
  rows.flags.push_back(0);
  rows.num_sge.push_back(0);
  rows.id.push_back(id);
  rows.next.push_back(static_cast<std::int64_t>(rows.group.size()));
  rows.sge_addr.push_back(0);
  rows.sge_length.push_back(0);
  rows.sge_lkey.push_back(0);
  rows.remote_addr.push_back(0);
  rows.rkey.push_back(0);
  rows.imm.push_back(0);
  rows.entry.push_back(-1);
}

void post(const Batch& b, std::uint64_t id, std::int64_t s, const std::vector<Request>& requests, Plan& plan, Rows& rows) {
  const std::int64_t Q = b.qp_dev.extent(0);
  const std::int64_t nq = b.split_on_qps ? Q : b.n_data_qps;
  const int n = static_cast<int>(requests.size());
  const std::size_t first = rows.group.size();
  for (std::int64_t i = 0; i < nq; ++i) {
    const auto q = static_cast<std::int32_t>((id * static_cast<std::uint64_t>(nq) + static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(Q));
    const std::int32_t d = b.qp_dev[q], e = b.qp_rem_dev[q];
    std::uint64_t wr_id = 0;
    for (int r = 0; r < n; ++r) {
      const Request& request = requests[static_cast<std::size_t>(r)];
      wr_id += static_cast<std::uint64_t>(s & 255) << (8 * r);
      std::int64_t share = (request.size + nq - 1) / nq;
      while (share % 128 != 0) ++share;
      std::int64_t sent = 0;
      for (std::size_t row = first; row < rows.group.size(); ++row)
        if (rows.entry[row] == r) sent += rows.sge_length[row];
      const std::int64_t length = std::min(share, request.size - sent);
      append(rows, id, q, wr_id);
      rows.entry.back() = r;
      rows.remote_addr.back() = b.cts_addr(s, r) + static_cast<std::uint64_t>(sent);
      rows.rkey.back() = b.cts_rkeys(s, r, e);
      if (length > 0) {
        rows.num_sge.back() = 1;
        rows.sge_addr.back() = b.send_addr[request.send] + static_cast<std::uint64_t>(sent);
        rows.sge_length.back() = static_cast<std::uint32_t>(length);
        rows.sge_lkey.back() = b.lkeys(b.send_mr[request.send], d);
      }
    }
    for (int r = 0; r < n; ++r) plan.report(s, r) = static_cast<std::int32_t>(requests[static_cast<std::size_t>(r)].size);
    if (n > 1 || (b.adaptive_routing && !b.ooo_rq && requests[0].size > b.ar_threshold)) {
      append(rows, id, q, wr_id);
      if (n > 1) {
        rows.num_sge.back() = 1;
        rows.sge_addr.back() = b.report_addr + report_slot_bytes * static_cast<std::uint64_t>(s);
        rows.sge_length.back() = static_cast<std::uint32_t>(4 * n);
        rows.sge_lkey.back() = b.report_lkeys[d];
        rows.remote_addr.back() = b.remote_report_addr + report_slot_bytes * static_cast<std::uint64_t>(s);
        rows.rkey.back() = b.report_rkeys[d];
      }
    }
    rows.opcode.back() = 1;
    rows.flags.back() = 2;
    rows.imm.back() = b.match_by_id ? static_cast<std::uint32_t>(id % 0xffffffffu) : static_cast<std::uint32_t>(requests[0].size);
    rows.next.back() = -1;
  }
}

template <class T>
void copy_out(const std::vector<T>& from, View<T, 1> to) { std::ranges::copy(from, to.data()); }

}  // namespace

Rejected plan_sends(const Batch& b, Plan& plan) {
  if (Rejected rejected = check_sends(b)) return rejected;
  std::int32_t credits = 0;
  if (Rejected rejected = walk_credits(b, credits)) return rejected;
  plan.credits = credits;

  const std::int64_t F = b.cts_idx.extent(0), Q = b.qp_dev.extent(0);
  Rows rows;
  std::ranges::fill(plan.report.flat(), 0);
  std::uint64_t h = b.fifo_head;
  std::vector<bool> matched(entries, false);
  std::vector<Request> requests(entries);
  std::uint32_t count = 0;
  for (std::int64_t k = 0; k < b.send_addr.extent(0); ++k) {
    plan.send_status[k] = no_credit;
    plan.send_id[k] = 0;
    plan.send_entry[k] = -1;
    plan.send_bytes[k] = 0;
    const std::int64_t s = static_cast<std::int64_t>(h % static_cast<std::uint64_t>(F));
    if (!ready(b, s, h)) continue;
    std::uint32_t r = 0;
    while (r < b.cts_nreqs[s] && (matched[r] || b.cts_tag(s, r) != b.send_tag[k])) ++r;
    if (r == b.cts_nreqs[s]) {
      plan.send_status[k] = no_entry;
      continue;
    }
    const auto size = static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(b.send_size[k]), b.cts_size(s, r)));
    matched[r] = true;
    requests[r] = {k, size};
    ++count;
    plan.send_status[k] = incomplete;
    plan.send_id[k] = h;
    plan.send_entry[k] = static_cast<std::int32_t>(r);
    plan.send_bytes[k] = size;
    plan.report(s, r) = static_cast<std::int32_t>(size);
    if (count < b.cts_nreqs[s]) continue;
    post(b, h, s, {requests.begin(), requests.begin() + count}, plan, rows);
    for (std::uint32_t done = 0; done < count; ++done) plan.send_status[requests[done].send] = posted;
    matched.assign(entries, false);
    count = 0;
    ++h;
  }
  plan.fifo_head_out = h;
  plan.next_qp = static_cast<std::int32_t>(h * static_cast<std::uint64_t>(b.split_on_qps ? Q : b.n_data_qps) % static_cast<std::uint64_t>(Q));
  plan.rows = static_cast<std::int64_t>(rows.group.size());
  copy_out(rows.group, plan.wr_group);
  copy_out(rows.qp, plan.wr_qp);
  copy_out(rows.opcode, plan.wr_opcode);
  copy_out(rows.flags, plan.wr_flags);
  copy_out(rows.num_sge, plan.wr_num_sge);
  copy_out(rows.id, plan.wr_id);
  copy_out(rows.next, plan.wr_next);
  copy_out(rows.sge_addr, plan.sge_addr);
  copy_out(rows.sge_length, plan.sge_length);
  copy_out(rows.sge_lkey, plan.sge_lkey);
  copy_out(rows.remote_addr, plan.remote_addr);
  copy_out(rows.rkey, plan.rkey);
  copy_out(rows.imm, plan.imm);
  return std::nullopt;
}

}  // namespace faibench::ib_multisend_wr_plan::baseline
