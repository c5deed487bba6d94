// Chains go to blocks of columns in the second-level cache; full blocks are streamed to the output, which is far larger than any cache.
#include "kernels/network/ib_multisend_wr_plan/chains.h"

#include <algorithm>
#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/network/ib_multisend_wr_plan/chains.cpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace faibench::ib_multisend_wr_plan::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t block = 512;                    // rows; 16 of them are a whole number of lines in every column
constexpr std::int64_t room = block + 128 * 9 + 16;    // a whole group more, and what the last vector writes beyond; whole lines in every column

struct alignas(64) Block {
  std::uint64_t group[room], id[room], sge_addr[room], remote_addr[room];
  std::int64_t next[room];
  std::int32_t qp[room], opcode[room], flags[room], num_sge[room];
  std::uint32_t sge_length[room], sge_lkey[room], rkey[room], imm[room];
};

// Moves rows [from, to) of the block, which starts at row `start` of the output, streaming where lines are whole.
template <class T>
void MoveColumn(T* column, View<T, 1> out, std::int64_t start, std::int64_t from, std::int64_t to, std::int64_t filled) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  T* to_row = out.data() + start;
  if (from == 0 && to == block && reinterpret_cast<std::uintptr_t>(to_row) % 64 == 0) {
    for (std::int64_t i = 0; i < block; i += lanes) hn::Stream(hn::Load(d, column + i), d, to_row + i);
  } else {
    std::copy(column + from, column + to, to_row + from);
  }
  if (filled > to) std::copy(column + to, column + filled, column);
}

void Flush(Block& b, const Plan& plan, std::int64_t start, std::int64_t from, std::int64_t to, std::int64_t filled) {
  MoveColumn(b.group, plan.wr_group, start, from, to, filled);
  MoveColumn(b.qp, plan.wr_qp, start, from, to, filled);
  MoveColumn(b.opcode, plan.wr_opcode, start, from, to, filled);
  MoveColumn(b.flags, plan.wr_flags, start, from, to, filled);
  MoveColumn(b.num_sge, plan.wr_num_sge, start, from, to, filled);
  MoveColumn(b.id, plan.wr_id, start, from, to, filled);
  MoveColumn(b.next, plan.wr_next, start, from, to, filled);
  MoveColumn(b.sge_addr, plan.sge_addr, start, from, to, filled);
  MoveColumn(b.sge_length, plan.sge_length, start, from, to, filled);
  MoveColumn(b.sge_lkey, plan.sge_lkey, start, from, to, filled);
  MoveColumn(b.remote_addr, plan.remote_addr, start, from, to, filled);
  MoveColumn(b.rkey, plan.rkey, start, from, to, filled);
  MoveColumn(b.imm, plan.imm, start, from, to, filled);
}

// Everything of a group that no queue pair changes; keys by device.
struct alignas(64) Template {
  std::uint64_t send_addr[entries], cts_addr[entries], id[entries];
  std::uint32_t size[entries], chunk[entries], sent[entries];
  std::uint32_t lkey[8][entries], rkey[8][entries];
};

void Prepare(const Batch& batch, const Group& g, const Plan& plan, std::uint32_t nq, Template& t) {
  std::uint64_t id = 0;
  for (std::int64_t r = 0; r < entries; ++r) {
    t.sent[r] = 0;
    t.size[r] = t.chunk[r] = 0;
    if (r >= g.n) continue;
    const std::int64_t k = g.send[r];
    t.size[r] = static_cast<std::uint32_t>(plan.report(g.slot, r));
    t.chunk[r] = ((t.size[r] + nq - 1) / nq + 127) & ~127u;
    id += static_cast<std::uint64_t>(g.slot & 255) << (8 * r);
    t.id[r] = id;
    t.send_addr[r] = batch.send_addr[k];
    t.cts_addr[r] = batch.cts_addr(g.slot, r);
    for (std::int64_t d = 0; d < batch.lkeys.extent(1); ++d) t.lkey[d][r] = batch.lkeys(batch.send_mr[k], d);
    for (std::int64_t e = 0; e < batch.cts_rkeys.extent(2); ++e) t.rkey[e][r] = batch.cts_rkeys(g.slot, r, e);
  }
}

// The chains of one group, from row `at` of the block on.
void WriteGroup(const Batch& batch, const Group& g, std::uint32_t nq, Template& t, Block& b, std::int64_t at, std::int64_t row) {
  const hn::CappedTag<std::uint64_t, 8> d64;
  const hn::Rebind<std::int64_t, decltype(d64)> di64;
  const hn::Rebind<std::uint32_t, decltype(d64)> d32;
  const hn::Rebind<std::int32_t, decltype(d64)> di32;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d64));
  const auto Q = static_cast<std::uint64_t>(batch.qp_dev.extent(0));
  const std::uint32_t imm = batch.match_by_id ? static_cast<std::uint32_t>(g.id % 0xffffffffu) : t.size[0];
  const bool extra = g.per_chain > g.n;
  const std::uint64_t report_offset = report_slot_bytes * static_cast<std::uint64_t>(g.slot);
  const auto zero32 = hn::Zero(d32);
  const auto one32 = hn::Set(di32, 1);
  const auto group = hn::Set(d64, g.id);
  const std::uint64_t first_product = g.id * nq;
  std::uint64_t q = first_product % Q;
  for (std::uint32_t i = 0; i < nq; ++i, at += g.per_chain, row += g.per_chain) {
    const std::int32_t d = batch.qp_dev[static_cast<std::int64_t>(q)], e = batch.qp_rem_dev[static_cast<std::int64_t>(q)];
    const auto qp = hn::Set(di32, static_cast<std::int32_t>(q));
    for (std::int64_t r = 0; r < g.n; r += lanes) {
      const std::int64_t w = at + r;
      const auto size = hn::Load(d32, t.size + r), sent = hn::Load(d32, t.sent + r);
      const auto length = hn::Min(hn::Load(d32, t.chunk + r), hn::Sub(size, sent));
      hn::Store(hn::Add(sent, length), d32, t.sent + r);
      const auto any = hn::Ne(length, zero32);
      const auto sent64 = hn::PromoteTo(d64, sent);
      const auto any64 = hn::Ne(hn::PromoteTo(d64, length), hn::Zero(d64));
      hn::StoreU(group, d64, b.group + w);
      hn::StoreU(qp, di32, b.qp + w);
      hn::StoreU(hn::Zero(di32), di32, b.opcode + w);
      hn::StoreU(hn::Zero(di32), di32, b.flags + w);
      hn::StoreU(hn::IfThenElseZero(hn::RebindMask(di32, any), one32), di32, b.num_sge + w);
      hn::StoreU(hn::Load(d64, t.id + r), d64, b.id + w);
      hn::StoreU(hn::Iota(di64, row + r + 1), di64, b.next + w);
      hn::StoreU(hn::IfThenElseZero(any64, hn::Add(hn::Load(d64, t.send_addr + r), sent64)), d64, b.sge_addr + w);
      hn::StoreU(length, d32, b.sge_length + w);
      hn::StoreU(hn::IfThenElseZero(any, hn::Load(d32, t.lkey[d] + r)), d32, b.sge_lkey + w);
      hn::StoreU(hn::Add(hn::Load(d64, t.cts_addr + r), sent64), d64, b.remote_addr + w);
      hn::StoreU(hn::Load(d32, t.rkey[e] + r), d32, b.rkey + w);
      hn::StoreU(zero32, d32, b.imm + w);
    }
    const std::int64_t last = at + g.per_chain - 1;
    if (extra) {
      const bool report = g.n > 1;
      b.group[last] = g.id;
      b.qp[last] = static_cast<std::int32_t>(q);
      b.num_sge[last] = report;
      b.id[last] = t.id[g.n - 1];
      b.sge_addr[last] = report ? batch.report_addr + report_offset : 0;
      b.sge_length[last] = report ? static_cast<std::uint32_t>(4 * g.n) : 0;
      b.sge_lkey[last] = report ? batch.report_lkeys[d] : 0;
      b.remote_addr[last] = report ? batch.remote_report_addr + report_offset : 0;
      b.rkey[last] = report ? batch.report_rkeys[d] : 0;
    }
    b.opcode[last] = 1;
    b.flags[last] = 2;
    b.next[last] = -1;
    b.imm[last] = imm;
    // One further, unless the product itself wraps at 2^64 here.
    q = first_product + i + 1 == 0 ? 0 : q + 1 == Q ? 0 : q + 1;
  }
}

void WriteGroups(const Batch& batch, const Group* groups, std::int64_t count, const Plan& plan) {
  if (count == 0) return;
  const auto nq = static_cast<std::uint32_t>(batch.split_on_qps ? batch.qp_dev.extent(0) : batch.n_data_qps);
  auto storage = std::make_unique<Block>();
  Block& b = *storage;
  Template t = {};
  std::int64_t start = groups[0].first_row / 16 * 16, from = groups[0].first_row - start, filled = from;
  for (std::int64_t k = 0; k < count; ++k) {
    const Group& g = groups[k];
    Prepare(batch, g, plan, nq, t);
    WriteGroup(batch, g, nq, t, b, filled, g.first_row);
    filled += static_cast<std::int64_t>(nq) * g.per_chain;
    while (filled >= block) {
      Flush(b, plan, start, from, block, filled);
      start += block;
      filled -= block;
      from = 0;
    }
  }
  Flush(b, plan, start, from, filled, filled);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace faibench::ib_multisend_wr_plan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::ib_multisend_wr_plan::cpu {
HWY_EXPORT(WriteGroups);
void write_groups(const Batch& batch, const Group* groups, std::int64_t count, const Plan& plan) { HWY_DYNAMIC_DISPATCH(WriteGroups)(batch, groups, count, plan); }
}  // namespace faibench::ib_multisend_wr_plan::cpu
#endif
