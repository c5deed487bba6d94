// The rows of complete groups, written eight entries at once: the inner loop of the cpu variant, compiled for each instruction set and picked at run time.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/network/ib_multisend_wr_plan/ib_multisend_wr_plan.h"

namespace faibench::ib_multisend_wr_plan::cpu {

/// A group whose entries are all matched. Its sizes stand in Plan::report.
struct Group {
  std::uint64_t id;
  std::int64_t slot, first_row;
  std::int32_t n, per_chain;    ///< entries; rows of a chain
  std::int32_t send[entries];   ///< by entry
};

/// Writes all rows of `count` groups that follow each other. Threads may work on different groups.
void write_groups(const Batch& batch, const Group* groups, std::int64_t count, const Plan& plan);

}  // namespace faibench::ib_multisend_wr_plan::cpu
