// The Communicator on MPI.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <memory>

#include "communicator/communicator.h"

namespace faibench {

/// Elements that one MPI call moves at most: counts are `int` there, and messages past 2 GiB trouble some transports.
inline constexpr std::int64_t mpi_chunk_limit = std::int64_t{1} << 27;

/// The group of `borrowed`, on a duplicate of it: collective, `borrowed` stays the caller's, messages of the two never mix. Errors of MPI become Error(mpi).
/// Destroy it, and what split() made of it, on all ranks in the same order and before MPI_Finalize. Longer vectors travel in chunks of `chunk_limit` elements
/// (the same on all ranks), so that a test reaches that path with few.
std::unique_ptr<Communicator> mpi_communicator(MPI_Comm borrowed, std::int64_t chunk_limit = mpi_chunk_limit);

/// All ranks. Throws Error(mpi) where MPI_Init has not been called.
std::unique_ptr<Communicator> mpi_world(std::int64_t chunk_limit = mpi_chunk_limit);

}  // namespace faibench
