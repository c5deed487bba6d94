// The NCCL transport.
#pragma once
#include <memory>
#include <optional>

#include "communicator/communicator.h"
#include "communicator/nccl_library.h"

namespace faibench {

struct NcclOptions {
  /// Where the buffers of calls lie: in host memory they are staged through device memory here, explicitly; device addresses go to NCCL as they are.
  bool buffers_on_device = false;
  double patience_seconds = 60;  ///< a call not done by then is given up: the group is aborted and Error(mpi) thrown
};

/// A group over NCCL. `library` is shared with groups split from this one. Every wait polls the group's asynchronous errors; after a failure the group is aborted, never destroyed:
/// destroying waits for peers that may be gone.
std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<NcclLibrary> library, const NcclLibrary::Id& id, int ranks, int rank, NodeMap nodes, const NcclOptions& options = {});

/// The same over the ranks of `bootstrap`, which carries the id and tells the nodes: each rank takes the GPU numbered by its place in its node. Collective. Null on all ranks where any rank has no GPU of its own or
/// no NCCL; `why` says so, the same on all ranks.
std::unique_ptr<Communicator> nccl_communicator(Communicator& bootstrap, std::string& why, const NcclOptions& options = {});

}  // namespace faibench
