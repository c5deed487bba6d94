// The Communicator on MPI.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <memory>

#include "communicator/communicator.h"

namespace faibench {

/// Elements that one MPI call moves at most: counts are `int` there, and messages past 2 GiB trouble some transports.
inline constexpr std::int64_t mpi_chunk_limit = std::int64_t{1} << 27;

/// Bytes of a piece of start_exchange()'s messages between nodes: with its header it stays below 64 KiB, up to which Open MPI's TCP sends without asking the receiver first. Its answer to a larger
/// message waits in the same stream behind what travels the other way, and so the two directions take turns: over a link of 1 Gbit/s, 8 MiB both ways at once took 144 ms whole, 67 ms in pieces.
inline constexpr std::int64_t mpi_network_piece = 60 << 10;

/// Equal on all ranks of a group.
struct MpiOptions {
  std::int64_t chunk_limit = mpi_chunk_limit;  ///< longer vectors travel in chunks of so many elements: a test reaches that path with few
  std::int64_t network_piece_bytes = mpi_network_piece;
  bool shared_memory = true;                   ///< off: share() gives null everywhere
  bool peer_reads = true;                      ///< off: reads_peers() is false
  int ranks_per_node = 0;                      ///< 0: ranks that MPI says can share memory are a node; else so many in order, as if on hosts of their own
};
/// The defaults, with FAIBENCH_CHUNK_LIMIT, FAIBENCH_NETWORK_PIECE, FAIBENCH_SHARED_MEMORY=0, FAIBENCH_PEER_READS=0 and FAIBENCH_RANKS_PER_NODE where the environment has them. Throws Error(bad_input) on nonsense there.
MpiOptions mpi_options_from_environment();

/// The group of `borrowed`, on a duplicate of it: collective, `borrowed` stays the caller's, messages of the two never mix. Errors of MPI become Error(mpi).
/// Destroy it, and what split() and share() made of it, on all ranks in the same order and before MPI_Finalize.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm borrowed, const MpiOptions& options = {});
/// All ranks. Throws Error(mpi) where MPI_Init has not been called.
std::unique_ptr<Communicator> mpi_world(const MpiOptions& options = {});
/// The same with that chunk limit alone.
std::unique_ptr<Communicator> mpi_world(std::int64_t chunk_limit);

}  // namespace faibench
