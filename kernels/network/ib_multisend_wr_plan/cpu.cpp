// Three passes. Checks: sends and slots as a whole by all threads; only where something is wrong is the first fault looked for. Matching: in order, as each send may move the
// cursor; groups get the row they begin at. Rows: groups split over threads by rows, see chains.cpp.
// Bound: 76 bytes a row written; a chain costs some 13 vector stores into the cache, so that memory decides.
#include <algorithm>
#include <omp.h>
#include <vector>

#include "kernels/network/ib_multisend_wr_plan/chains.h"

namespace faibench::ib_multisend_wr_plan::cpu {
namespace {

constexpr std::int64_t shared_slots = 512;  // fewer are walked by one thread

bool passes_2_64(std::uint64_t address, std::uint64_t size) { return address != 0 && size > 0 - address; }

/// Whether any send is wrong, all conditions at once.
bool any_bad_send(const Batch& b) {
  const std::int64_t N = b.send_addr.extent(0);
  const std::uint32_t M = static_cast<std::uint32_t>(b.lkeys.extent(0));
  std::uint32_t bad = 0;
#pragma omp parallel for schedule(static) reduction(| : bad) if (N >= 16384)
  for (std::int64_t k = 0; k < N; ++k) {
    const std::uint64_t size = static_cast<std::uint64_t>(b.send_size[k]), address = b.send_addr[k];
    bad |= static_cast<std::uint32_t>(b.send_mr[k]) >= M;
    bad |= size > 0x7fffffffu;
    bad |= (size > 0) & (address > 0 - size);
    bad |= (address == 0) & (size > 0);
  }
  return bad;
}

Rejected first_bad_send(const Batch& b) {
  const std::int64_t N = b.send_addr.extent(0), M = b.lkeys.extent(0);
  const auto first = [&](auto&& wrong) {
    std::int64_t k = 0;
    while (k < N && !wrong(k)) ++k;
    return k;
  };
  std::int64_t k = first([&](std::int64_t i) { return b.send_mr[i] < 0 || b.send_mr[i] >= M; });
  if (k < N) return reject("bad_mr", "send_mr", k, std::to_string(b.send_mr[k]), "there are " + std::to_string(M) + " memory regions");
  k = first([&](std::int64_t i) { return b.send_size[i] < 0; });
  if (k < N) return reject("negative_size", "send_size", k, std::to_string(b.send_size[k]), "a number of bytes");
  k = first([&](std::int64_t i) { return b.send_size[i] >> 31 != 0; });
  if (k < N) return reject("size_too_large", "send_size", k, std::to_string(b.send_size[k]), "2^31-1 bytes at most");
  k = first([&](std::int64_t i) { return b.send_addr[i] == 0 && b.send_size[i] != 0; });
  if (k < N) return reject("null_send_addr", "send_addr", k, "0", "a send of " + std::to_string(b.send_size[k]) + " bytes");
  k = first([&](std::int64_t i) { return passes_2_64(b.send_addr[i], static_cast<std::uint64_t>(b.send_size[i])); });
  if (k < N) return reject("send_wraps", "send_addr", k, std::to_string(b.send_addr[k]), "with " + std::to_string(b.send_size[k]) + " bytes it passes 2^64");
  return std::nullopt;
}

struct Walk {
  std::int64_t ready = 0;  // slots from the first on
  bool bad = false;        // some rejection is due
};

/// The walk from the `first`-th slot behind the cursor to the `last`-th, or to the first that is not ready.
Walk walk(const Batch& b, std::int64_t first, std::int64_t last) {
  const auto F = static_cast<std::uint64_t>(b.cts_idx.extent(0));
  const std::int64_t R = b.cts_rkeys.extent(2);
  Walk result;
  std::uint64_t id = b.fifo_head + static_cast<std::uint64_t>(first), s = id % F;
  for (std::int64_t c = first; c < last; ++c) {
    const std::uint64_t* idx = b.cts_idx.data() + s * 8;
    if (idx[0] != id + 1) return result;
    const std::uint32_t n = b.cts_nreqs[static_cast<std::int64_t>(s)];
    if (n - 1 > 7) {
      result.bad = true;
      return result;
    }
    const std::uint64_t* addr = b.cts_addr.data() + s * 8;
    const std::uint64_t* size = b.cts_size.data() + s * 8;
    const std::uint32_t* rkey = b.cts_rkeys.data() + static_cast<std::int64_t>(s) * 8 * R;
    bool ready = true, bad = false;
    for (std::uint32_t r = 0; r < n; ++r) {
      ready &= idx[r] == id + 1;
      bad |= (addr[r] == 0) | (rkey[r * R] == 0) | (size[r] > 0 - addr[r]);
    }
    if (!ready) return result;
    result.bad |= bad;
    ++result.ready;
    ++id;
    s = id == 0 ? 0 : s + 1 == F ? 0 : s + 1;
  }
  return result;
}

/// Exactly which rejection, once one is due.
Rejected first_bad_slot(const Batch& b) {
  const std::int64_t F = b.cts_idx.extent(0), R = b.cts_rkeys.extent(2);
  std::vector<std::int64_t> window;
  for (std::uint64_t id = b.fifo_head; static_cast<std::int64_t>(window.size()) < F; ++id) {
    const auto s = static_cast<std::int64_t>(id % static_cast<std::uint64_t>(F));
    if (b.cts_idx(s, 0) != id + 1) break;
    const std::uint32_t n = b.cts_nreqs[s];
    if (n == 0 || n > 8) return reject("bad_nreqs", "cts_nreqs", s, std::to_string(n), "1 to 8 entries are in use once entry 0 has arrived");
    const std::uint64_t* idx = b.cts_idx.data() + s * 8;
    if (std::any_of(idx, idx + n, [id](std::uint64_t value) { return value != id + 1; })) break;
    window.push_back(s);
  }
  for (const std::int64_t s : window)
    for (std::int64_t at = s * 8; at < s * 8 + b.cts_nreqs[s]; ++at)
      if (b.cts_addr.data()[at] == 0) return reject("cts_null_addr", "cts_addr", at, "0", "an entry in use");
  for (const std::int64_t s : window)
    for (std::int64_t at = s * 8; at < s * 8 + b.cts_nreqs[s]; ++at)
      if (b.cts_rkeys.data()[at * R] == 0) return reject("cts_zero_rkey", "cts_rkeys", at * R, "0", "an entry in use");
  for (const std::int64_t s : window)
    for (std::int64_t at = s * 8; at < s * 8 + b.cts_nreqs[s]; ++at)
      if (passes_2_64(b.cts_addr.data()[at], b.cts_size.data()[at])) return reject("cts_wraps", "cts_addr", at, std::to_string(b.cts_addr.data()[at]), "with " + std::to_string(b.cts_size.data()[at]) + " bytes it passes 2^64");
  return std::nullopt;
}

Walk credit_walk(const Batch& b) {
  const std::int64_t F = b.cts_idx.extent(0);
  const std::int64_t pieces = F < shared_slots ? 1 : omp_get_max_threads();
  std::vector<Walk> walks(static_cast<std::size_t>(pieces));
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(pieces)) if (pieces > 1)
  for (std::int64_t p = 0; p < pieces; ++p) walks[static_cast<std::size_t>(p)] = walk(b, F * p / pieces, F * (p + 1) / pieces);
  Walk whole;
  for (std::int64_t p = 0; p < pieces; ++p) {
    const Walk& piece = walks[static_cast<std::size_t>(p)];
    whole.ready += piece.ready;
    whole.bad |= piece.bad;
    if (piece.ready < F * (p + 1) / pieces - F * p / pieces) break;  // what lies behind does not count
  }
  return whole;
}

/// Finds entries for the sends in order; returns the complete groups.
std::vector<Group> match(const Batch& b, std::int64_t credits, std::int64_t nq, const Plan& plan) {
  const auto F = static_cast<std::uint64_t>(b.cts_idx.extent(0));
  const std::int64_t N = b.send_addr.extent(0);
  const bool routed = b.adaptive_routing && !b.ooo_rq;
  std::vector<Group> groups;
  groups.reserve(static_cast<std::size_t>(std::min(N, credits)));
  std::int64_t group = 0, row = 0;
  Group current{};
  std::uint32_t free_entries = 0;
  const std::uint32_t* tags = nullptr;
  const std::uint64_t* sizes = nullptr;
  std::int32_t* report = nullptr;
  const auto open = [&] {
    if (group == credits) return;
    current.id = b.fifo_head + static_cast<std::uint64_t>(group);
    current.slot = static_cast<std::int64_t>(current.id % F);
    current.n = static_cast<std::int32_t>(b.cts_nreqs[current.slot]);
    current.first_row = row;
    free_entries = (1u << current.n) - 1;
    tags = b.cts_tag.data() + current.slot * 8;
    sizes = b.cts_size.data() + current.slot * 8;
    report = plan.report.data() + current.slot * 8;
  };
  open();
  for (std::int64_t k = 0; k < N; ++k) {
    std::int32_t status = no_credit, entry = -1;
    std::uint64_t id = 0, bytes = 0;
    if (group < credits) {
      std::uint32_t equal = 0;
      for (std::int32_t r = 0; r < 8; ++r) equal |= static_cast<std::uint32_t>(tags[r] == b.send_tag[k]) << r;
      equal &= free_entries;
      status = no_entry;
      if (equal) {
        status = incomplete;
        entry = __builtin_ctz(equal);
        free_entries &= ~(1u << entry);
        id = current.id;
        bytes = std::min(static_cast<std::uint64_t>(b.send_size[k]), sizes[entry]);
        report[entry] = static_cast<std::int32_t>(bytes);
        current.send[entry] = static_cast<std::int32_t>(k);
      }
    }
    plan.send_status[k] = status;
    plan.send_id[k] = id;
    plan.send_entry[k] = entry;
    plan.send_bytes[k] = static_cast<std::int64_t>(bytes);
    if (status != incomplete || free_entries) continue;
    for (std::int32_t r = 0; r < current.n; ++r) plan.send_status[current.send[r]] = posted;
    current.per_chain = current.n + (current.n > 1 || (routed && report[0] > b.ar_threshold));
    row += nq * current.per_chain;
    groups.push_back(current);
    ++group;
    open();
  }
  return groups;
}

}  // namespace

Rejected plan_sends(const Batch& b, Plan& plan) {
  if (any_bad_send(b)) return first_bad_send(b);
  const Walk credits = credit_walk(b);
  if (credits.bad) return first_bad_slot(b);
  const std::int64_t Q = b.qp_dev.extent(0), nq = b.split_on_qps ? Q : b.n_data_qps;
  std::ranges::fill(plan.report.flat(), 0);
  const std::vector<Group> groups = match(b, credits.ready, nq, plan);
  const auto count = static_cast<std::int64_t>(groups.size());
  plan.rows = count == 0 ? 0 : groups.back().first_row + nq * groups.back().per_chain;
  plan.credits = static_cast<std::int32_t>(credits.ready);
  plan.fifo_head_out = b.fifo_head + static_cast<std::uint64_t>(count);
  plan.next_qp = static_cast<std::int32_t>(plan.fifo_head_out * static_cast<std::uint64_t>(nq) % static_cast<std::uint64_t>(Q));
  const std::int64_t pieces = plan.rows < 4096 ? 1 : omp_get_max_threads();
  const auto begin_of = [&](std::int64_t piece) {
    return std::ranges::lower_bound(groups, plan.rows * piece / pieces, {}, &Group::first_row) - groups.begin();
  };
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(pieces)) if (pieces > 1)
  for (std::int64_t p = 0; p < pieces; ++p) {
    const std::int64_t begin = begin_of(p), end = p + 1 == pieces ? count : begin_of(p + 1);
    write_groups(b, groups.data() + begin, end - begin, plan);
  }
  return std::nullopt;
}

}  // namespace faibench::ib_multisend_wr_plan::cpu
