// What multi-rank tasks see of other ranks. Knows no MPI: transports implement it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "communicator/node_map.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench {

enum class Reduce { sum, min, max };

/// `count` elements for, or from, another rank: one entry of Communicator::start_exchange.
struct Outgoing { const void* data; std::int64_t count; int to; };
struct Incoming { void* data; std::int64_t count; int from; };

/// An exchange under way. Its buffers belong to it until wait() returns. Destroying it waits too, and hides what went wrong.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void wait() = 0;
};

/// Equally many bytes of every rank of a group; ranks of one node reach each other's by plain loads and stores. Who writes what when is the users' own agreement
/// (Communicator::node_barrier orders it). Page-aligned, zero at first, touched by its own rank first. Freed by all ranks together, like any collective call.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  [[nodiscard]] virtual std::int64_t bytes() const = 0;
  [[nodiscard]] virtual std::byte* own() const = 0;
  /// Null for ranks of other nodes.
  [[nodiscard]] virtual std::byte* of(int rank) const = 0;
};

/// A slot of shared memory a rank, through which ranks of one node pass small things without a message: a rank writes its slot, posts, and then reads everybody's.
/// Collective like the group it belongs to, which owns it.
class Board {
 public:
  static constexpr std::int64_t slot_bytes = std::int64_t{64} << 10;
  virtual ~Board() = default;
  /// This rank's slot for the next post(), 64-byte aligned; what it holds is old.
  [[nodiscard]] virtual std::byte* own() = 0;
  /// Returns when every rank has posted as often.
  virtual void post() = 0;
  /// What `rank` posted last, its own slot included; stays until this rank posts again.
  [[nodiscard]] virtual const std::byte* of(int rank) const = 0;
};

/// A group of ranks. Calls are collective and blocking unless said otherwise: every rank calls the same ones in the same order.
/// Counts may pass 2^31 elements and may be 0. Failures of the transport throw Error(mpi); after one the group cannot be used any more.
/// Buffers of one call may not overlap, except that all_reduce takes in == out, and all_gather takes a rank's piece where it belongs in `out`.
/// One thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  virtual void barrier() = 0;
  /// Untyped forms; counts in elements of `dtype`. 16-bit floats and bool can be moved, not reduced: that throws Error(internal).
  /// The order in which a sum adds its terms is the transport's own.
  virtual void all_reduce(const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) = 0;
  /// Rank r gets elements [displacements[r], displacements[r] + counts[r]) of the reduced vector.
  virtual void reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype, Reduce op) = 0;
  /// Rank r gives counts[r] elements; all get the concatenation in rank order.
  virtual void all_gather(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype) = 0;
  /// send_counts[r] elements go to rank r from send_offsets[r]; recv_counts[r] arrive from r at recv_offsets[r] (all in elements).
  virtual void all_to_all(const void* in, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* out,
                          std::span<const std::int64_t> recv_counts, std::span<const std::int64_t> recv_offsets, Dtype dtype) = 0;
  virtual void broadcast(void* data, std::int64_t count, Dtype dtype, int root) = 0;
  /// Not collective: two ranks, equal counts on both sides. send() may wait for its receive().
  virtual void send(const void* data, std::int64_t count, Dtype dtype, int to) = 0;
  virtual void receive(void* data, std::int64_t count, Dtype dtype, int from) = 0;
  /// Starts any set of messages at once and does not wait. Messages between the same two ranks match in the order of their start, with equal counts; a count of 0
  /// sends nothing. Not collective: ranks without a message need not call it.
  [[nodiscard]] virtual std::unique_ptr<Exchange> start_exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Dtype dtype) = 0;
  /// Ranks of equal color form a group, ordered by key, then by rank. A negative color joins none (null).
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// The library's own irregular all-to-all (MPI_Alltoallv), the yardstick of ours; same meaning as all_to_all. Transports without one, and counts past int, use all_to_all.
  virtual void library_all_to_all(const void* in, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* out,
                                  std::span<const std::int64_t> recv_counts, std::span<const std::int64_t> recv_offsets, Dtype dtype) {
    all_to_all(in, send_counts, send_offsets, out, recv_counts, recv_offsets, dtype);
  }

  /// "MPI", "NCCL", ...
  [[nodiscard]] virtual std::string_view transport() const = 0;
  /// Which ranks share a node.
  [[nodiscard]] virtual const NodeMap& nodes() const = 0;
  /// Collective; `bytes` may differ between ranks, the largest counts. Null on all ranks where ranks of some node cannot share that much: switched off, or too little room in
  /// shared memory (the reason is in why_not_shared()). A group with one rank a node shares with itself.
  [[nodiscard]] virtual std::unique_ptr<SharedMemory> share(std::int64_t bytes) = 0;
  /// One line, empty while nothing was refused.
  [[nodiscard]] virtual std::string why_not_shared() const { return {}; }
  /// Where `rank` keeps what this rank keeps at `own`, an address in memory from share() of this group: null for ranks of other nodes and other addresses. Equal answers on
  /// both sides need equal offsets there: allocate in the same order.
  [[nodiscard]] virtual const std::byte* peer_address(int /*rank*/, const void* /*own*/) const { return nullptr; }
  /// Null, on all ranks alike, where the group is not one node's, or its ranks cannot share memory. Collective at its first call.
  [[nodiscard]] virtual Board* board() { return nullptr; }
  /// Waits for the ranks of this node; what they wrote to shared memory before is seen after. Without shared memory a barrier of those ranks by messages.
  virtual void node_barrier() = 0;
  /// Whether read_peer() works between the ranks of every node here (single-copy reads of another process, probed once; all ranks say the same).
  [[nodiscard]] virtual bool reads_peers() const { return false; }
  /// Copies `bytes` bytes at address `theirs` of `rank`, a rank of this node, to `here`. Not collective.
  virtual void read_peer(int rank, const void* theirs, void* here, std::int64_t bytes);

  /// Room of this rank alone for what a call packs or receives on the way: grows to the most that was asked for and stays with the group, as fresh pages cost more than the copies into them.
  /// Not initialised; good until the next call of scratch(). Not collective.
  [[nodiscard]] std::byte* scratch(std::int64_t bytes);

  /// Typed conveniences.
  template <class T>
  void all_reduce(View<const T, 1> in, View<T, 1> out, Reduce op) { all_reduce(in.data(), out.data(), in.size(), dtype_of<T>, op); }
  template <class T>
  void broadcast(View<T, 1> data, int root) { broadcast(data.data(), data.size(), dtype_of<T>, root); }

 private:
  std::unique_ptr<std::byte[]> scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace faibench
