// Private buffers. Short vectors go over the board: every rank copies its partial into its slot of shared memory and adds what it finds in all. Longer ones, on one node: a rank reads the
// others' partials straight from their memory (one copy, by the kernel), chunk by chunk so that a chunk of all ranks is added while it is in the caches, and then the others' finished
// pieces into its own output:
//
//   rank 0   x0: [a0|b0]   reads a1, out[a] = a0+a1+bias    reads out[b]
//   rank 1   x1: [a1|b1]   reads b0, out[b] = b0+b1+bias    reads out[a]
//
// Accesses of a rank at P = 2, in units of its whole vector: 1 read and 0.5 written in the kernel twice over, 1.5 by the sum; MPI_Allreduce and a pass for the bias come to about 6.
// Elsewhere, and where two calls of the kernel cost more than they save, by messages.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/tp_allreduce_bias_fuse/agreement.h"
#include "collectives/tp_allreduce_bias_fuse/messages.h"
#include "collectives/tp_allreduce_bias_fuse/ordered_sum.h"
#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"
#include "communicator/communicator.h"

namespace faibench::tp_allreduce_bias_fuse {
namespace {

// Of the whole vector. Everybody's work grows with P on the board, a rank's share of the reads does not.
std::int64_t most_board_bytes(int ranks) { return (std::int64_t{256} << 10) / ranks; }
constexpr std::int64_t board_chunk_bytes = 32 << 10;
static_assert(entry_bytes + board_chunk_bytes <= Board::slot_bytes);
constexpr std::int64_t least_read_bytes = 16 << 10;  // of the whole vector
constexpr std::int64_t chunk_bytes = 64 << 10;       // of one rank's; P of them share the second cache

/// Of the first core, or what a server has at least. sysconf() knows it too, and is ten times too high on some virtual machines.
std::int64_t third_cache_bytes() {
  static const std::int64_t bytes = [] {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // "32768K"
    std::int64_t kibibytes = 0;
    return file >> kibibytes && file.get() == 'K' && kibibytes > 0 ? kibibytes << 10 : std::int64_t{16} << 20;
  }();
  return bytes;
}

struct Pieces {
  std::int64_t L;
  int ranks;
  // Cut at whole steps of the loop, so that no line is written by two ranks.
  [[nodiscard]] std::int64_t start(int q) const { return q == ranks ? L : L * q / ranks / longest_step * longest_step; }
};

/// Of all ranks, in order.
std::vector<Addresses> addresses_of_all(Communicator& communicator, const Board* board, Addresses own) {
  std::vector<Addresses> all(static_cast<std::size_t>(communicator.size()));
  if (board) {
    for (int rank = 0; rank < communicator.size(); ++rank) all[static_cast<std::size_t>(rank)] = posted_addresses(*board, rank);
    return all;
  }
  const std::vector<std::int64_t> counts(all.size(), sizeof(Addresses));
  communicator.all_gather(&own, all.data(), counts, Dtype::u8);
  return all;
}

/// Every rank adds everything, from the slots. The first chunk is there.
template <class T>
void sum_over_board(Board& board, int rank, int ranks, const T* x, std::int64_t L, const WrappedBias<T>& bias, T* out) {
  std::vector<const T*> streams(static_cast<std::size_t>(ranks));
  constexpr std::int64_t chunk = board_chunk_bytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t first = 0; first < L; first += chunk) {
    const std::int64_t n = std::min(chunk, L - first);
    if (first > 0) {
      std::memcpy(board.own() + entry_bytes, x + first, static_cast<std::size_t>(n) * sizeof(T));
      board.post();
    }
    for (int p = 0; p < ranks; ++p) streams[static_cast<std::size_t>(p)] = p == rank ? x + first : reinterpret_cast<const T*>(board.of(p) + entry_bytes);
    T* const outs[] = {out + first};
    ordered_sum<T>(streams, bias, first, n, outs, Store::cached);
  }
}

template <class T>
void sum_by_reads(Communicator& communicator, const Board* board, const T* x, std::int64_t L, const WrappedBias<T>& bias, T* out) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const Pieces pieces{L, ranks};
  const auto theirs = addresses_of_all(communicator, board, {x, out});  // after this all partials are there
  const auto place = [](const void* base, std::int64_t element) { return static_cast<const void*>(static_cast<const T*>(base) + element); };
  const std::int64_t chunk = chunk_bytes / static_cast<std::int64_t>(sizeof(T)), end = pieces.start(rank + 1);
  const auto staging = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(std::min(chunk, end - pieces.start(rank)) * (ranks - 1)));
  std::vector<const T*> streams(static_cast<std::size_t>(ranks));
  for (std::int64_t first = pieces.start(rank); first < end; first += chunk) {
    const std::int64_t n = std::min(chunk, end - first);
    T* slot = staging.get();
    for (int step = 0; step < ranks; ++step) {  // the next rank first: not everybody reads the same one at once
      const int peer = (rank + step) % ranks;
      streams[static_cast<std::size_t>(peer)] = peer == rank ? x + first : slot;
      if (peer == rank) continue;
      communicator.read_peer(peer, place(theirs[static_cast<std::size_t>(peer)].partial, first), slot, n * static_cast<std::int64_t>(sizeof(T)));
      slot += n;
    }
    T* const outs[] = {out + first};
    ordered_sum<T>(streams, bias, first, n, outs, Store::cached);
  }
  communicator.node_barrier();  // all pieces are finished
  for (int step = 1; step < ranks; ++step) {
    const int peer = (rank + step) % ranks;
    const std::int64_t first = pieces.start(peer), n = pieces.start(peer + 1) - first;
    if (n > 0) communicator.read_peer(peer, place(theirs[static_cast<std::size_t>(peer)].out, first), out + first, n * static_cast<std::int64_t>(sizeof(T)));
  }
  communicator.node_barrier();  // what others read is theirs until they have
}

/// Straight from the partials of all ranks in shared memory into the outputs of all: nothing is copied. A rank reads P*L/P elements and writes as many.
template <class T>
void sum_in_place(Communicator& communicator, const T* x, std::int64_t L, const WrappedBias<T>& bias, T* out) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const Pieces pieces{L, ranks};
  const std::int64_t first = pieces.start(rank), n = pieces.start(rank + 1) - first;
  std::vector<const T*> streams;
  std::vector<T*> outs;
  for (int p = 0; p < ranks; ++p) {
    streams.push_back(reinterpret_cast<const T*>(communicator.peer_address(p, x)) + first);
    outs.push_back(reinterpret_cast<T*>(const_cast<std::byte*>(communicator.peer_address(p, out))) + first);
  }
  // Past the caches where the vectors of all ranks together do not fit them anyway. Measured on 2 ranks with a third cache of 32 MiB, cached against streamed, us: 4 MiB each 140 / 326,
  // 8 MiB 559 / 692, 16 MiB 1677 / 1409; with partials that other work has driven out of the caches 4 MiB 391 / 348.
  const auto store = 2 * ranks * L * static_cast<std::int64_t>(sizeof(T)) > third_cache_bytes() ? Store::streamed : Store::cached;
  if (n > 0) ordered_sum<T>(streams, bias, first, n, outs, store);
  communicator.node_barrier();  // all pieces are finished, and nobody reads this rank's partial any more
}

enum class Way { reads_or_messages, in_place, messages };

bool goes_over_board(const Communicator& communicator, const TensorRef& partial, Way way) {
  return way == Way::reads_or_messages && partial.bytes() <= most_board_bytes(communicator.size());
}

template <class T>
void run(MultiRank::Call& call, Way way, Board* board, bool ordered) {
  const TensorRef& tensor = call.arguments.inputs.at("partial");
  const auto partial = tensor.view<const T, 2>();
  T* const out = call.arguments.outputs.at("out").view<T, 2>().data();
  const std::int64_t L = partial.size();
  if (L == 0) return;
  const WrappedBias<T> bias(call.arguments.inputs.at("bias").view<const T, 1>().data(), partial.extent(1));
  Communicator& communicator = call.communicator;
  if (communicator.size() == 1) {
    const T* const own[] = {partial.data()};
    T* const outs[] = {out};
    ordered_sum<T>(own, bias, 0, L, outs, tensor.bytes() >= streamed_bytes ? Store::streamed : Store::cached);
  } else if (way == Way::in_place) {
    sum_in_place<T>(communicator, partial.data(), L, bias, out);
  } else if (board && goes_over_board(communicator, tensor, way)) {
    sum_over_board<T>(*board, communicator.rank(), communicator.size(), partial.data(), L, bias, out);
  } else if (way == Way::reads_or_messages && communicator.nodes().nodes() == 1 && communicator.reads_peers() && tensor.bytes() >= least_read_bytes) {
    sum_by_reads<T>(communicator, board, partial.data(), L, bias, out);
  } else {
    sum_by_messages<T>(communicator, partial.data(), L, bias, out, ordered);
  }
}

void run(MultiRank::Call& call, Way way, Board* board, bool ordered) {
  switch (call.arguments.inputs.at("partial").dtype) {
    case Dtype::f16: run<f16>(call, way, board, ordered); break;
    case Dtype::bf16: run<bf16>(call, way, board, ordered); break;
    default: run<float>(call, way, board, ordered); break;
  }
}

Entered enter_call(MultiRank::Call& call, bool registered, std::int64_t posted_bytes) {
  return enter(call.communicator, call.arguments.inputs.at("partial"), call.arguments.inputs.at("bias"), call.arguments.outputs.at("out").data, registered, posted_bytes);
}

Rejected enter_and_run(MultiRank::Call& call, Way way, bool ordered) {
  const TensorRef& partial = call.arguments.inputs.at("partial");
  auto entered = enter_call(call, false, goes_over_board(call.communicator, partial, way) ? std::min(board_chunk_bytes, partial.bytes()) : 0);
  if (!entered.rejected) run(call, way, entered.board, ordered);
  return std::move(entered.rejected);
}

}  // namespace

Rejected run_mpi(MultiRank::Call& call) { return enter_and_run(call, Way::reads_or_messages, false); }
Rejected run_mpi_deterministic(MultiRank::Call& call) { return enter_and_run(call, Way::reads_or_messages, true); }
Rejected run_messages(MultiRank::Call& call) { return enter_and_run(call, Way::messages, false); }

Rejected run_mpi_registered(MultiRank::Call& call) {
  const TensorRef &partial = call.arguments.inputs.at("partial"), &out = call.arguments.outputs.at("out");
  bool registered = call.communicator.nodes().nodes() == 1;
  for (int peer = 0; peer < call.communicator.size() && registered; ++peer) {
    registered = call.communicator.peer_address(peer, partial.data) && call.communicator.peer_address(peer, out.data);
  }
  auto entered = enter_call(call, registered, 0);
  if (!entered.rejected) run(call, entered.registered ? Way::in_place : Way::reads_or_messages, nullptr, false);
  return std::move(entered.rejected);
}

}  // namespace faibench::tp_allreduce_bias_fuse
