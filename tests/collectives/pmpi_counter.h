// Counts what a program hands to MPI, from outside of it: MPI_* calls are caught by their names and go on to PMPI_*. Link pmpi_counter.cpp into a test and it counts.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace faibench::testing_support {

struct Counted { std::int64_t calls = 0, bytes = 0; };

/// Since the last reset, on this rank.
struct WireCounts {
  std::map<int, Counted> sent;                ///< by rank of MPI_COMM_WORLD: messages this rank addressed to it itself (MPI_Send, MPI_Isend, ...)
  std::map<std::string, Counted> collectives; ///< by name: calls, and the bytes this rank gave to them; what the library sends for them is its own business
  [[nodiscard]] std::int64_t bytes_sent() const {
    std::int64_t bytes = 0;
    for (const auto& [rank, counted] : sent) bytes += counted.bytes;
    return bytes;
  }
  [[nodiscard]] std::int64_t messages_sent() const {
    std::int64_t messages = 0;
    for (const auto& [rank, counted] : sent) messages += counted.calls;
    return messages;
  }
};
WireCounts& wire_counts();

}  // namespace faibench::testing_support
