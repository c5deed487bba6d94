// Which GPU the NCCL transport of a rank works on.
#pragma once
#include <string>
#include <vector>

#include "communicator/communicator.h"

namespace faibench {

/// Collective. `visible`: UUIDs of the GPUs that this rank sees, in the CUDA runtime's order. The number of the one it is given among the ranks of its node, as everywhere else
/// (device/assignment.h); -1, and `why`, where it sees none or would share it: NCCL wants a GPU of its own for every rank of a node.
int own_gpu(Communicator& ranks, const std::vector<std::string>& visible, std::string& why);

}  // namespace faibench
