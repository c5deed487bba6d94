// The contract's own rejections of ib_multisend_wr_plan.
#pragma once
#include "kernels/network/ib_multisend_wr_plan/ib_multisend_wr_plan.h"

namespace faibench::ib_multisend_wr_plan {

/// Adds them all to the contract, in its order.
void add_rules(Contract& contract);

/// Length of the credit window: slots from fifo_head on until one is not ready, at most F. A slot that arrived with an impossible number of entries is a rejection.
struct Window {
  std::int64_t credits = 0;
  Rejected rejected;
};
Window credit_window(const Batch& batch);
/// Whether entry 0 and all in use carry `id` + 1.
bool slot_ready(const Batch& batch, std::int64_t slot, std::uint64_t id);

}  // namespace faibench::ib_multisend_wr_plan
