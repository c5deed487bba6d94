// Work requests of an InfiniBand collective transport for a batch of sends: what all variants take and give.
#pragma once
#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::ib_multisend_wr_plan {

/// Q queue pairs, L local and R remote devices, F FIFO slots of E = 8 entries, N sends, M memory regions. Arithmetic of u64 wraps.
struct Batch {
  std::uint64_t fifo_head;                       ///< id of the next request group; its slot is id mod F
  View<const std::int32_t, 1> qp_dev, qp_rem_dev;
  std::int32_t split_on_qps, n_data_qps, adaptive_routing, ooo_rq, match_by_id;
  std::int64_t ar_threshold;
  View<const std::uint64_t, 2> cts_idx, cts_addr, cts_size;
  View<const std::uint32_t, 2> cts_tag;
  View<const std::uint32_t, 3> cts_rkeys;        ///< [F, E, R]
  View<const std::uint32_t, 1> cts_nreqs;
  View<const std::uint64_t, 1> send_addr;
  View<const std::int64_t, 1> send_size;
  View<const std::uint32_t, 1> send_tag;
  View<const std::int32_t, 1> send_mr;           ///< row of lkeys
  View<const std::uint32_t, 2> lkeys;            ///< [M, L]
  std::uint64_t report_addr, remote_report_addr;
  View<const std::uint32_t, 1> report_lkeys, report_rkeys;  ///< both by local device
};

/// Columns of W rows (room for 2*N*Q), the fate of each send, the local size report and the cursor.
struct Plan {
  View<std::uint64_t, 1> wr_group;
  View<std::int32_t, 1> wr_qp, wr_opcode, wr_flags, wr_num_sge;
  View<std::uint64_t, 1> wr_id;
  View<std::int64_t, 1> wr_next;
  View<std::uint64_t, 1> sge_addr;
  View<std::uint32_t, 1> sge_length, sge_lkey;
  View<std::uint64_t, 1> remote_addr;
  View<std::uint32_t, 1> rkey, imm;
  View<std::int32_t, 1> send_status;
  View<std::uint64_t, 1> send_id;
  View<std::int32_t, 1> send_entry;
  View<std::int64_t, 1> send_bytes;
  View<std::int32_t, 2> report;
  std::int32_t& credits;
  std::uint64_t& fifo_head_out;
  std::int32_t& next_qp;
  std::int64_t& rows;                            ///< W
};

/// What a send came to.
enum Status : std::int32_t { no_credit = 0, no_entry = 1, incomplete = 2, posted = 3 };

constexpr std::int64_t entries = 8;              ///< E
constexpr std::uint64_t report_slot_bytes = 32;  ///< 8 i32 of each slot's size report

/// Matches sends to clear-to-send entries, posts every complete group as one chain of work requests on each of its queue pairs, and counts credits.
/// The runner checked all scalars, devices and extents; the variant checks sends (bad_mr ... send_wraps), then the credit window (bad_nreqs ... cts_wraps), before it writes.
/// (The reference leaves those checks to its caller.) Writes 76*W bytes. Thread-safe. Source: NCCL net_ib, ncclIbIsend and ncclIbMultiSend.
namespace reference { Rejected plan_sends(const Batch& batch, Plan& plan); }
namespace baseline { Rejected plan_sends(const Batch& batch, Plan& plan); }
namespace cpu { Rejected plan_sends(const Batch& batch, Plan& plan); }

/// The tensors of a call as structs.
Batch batch_of(const TensorRefMap& inputs);

}  // namespace faibench::ib_multisend_wr_plan
