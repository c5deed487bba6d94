// Who sends what to whom, in which round: the one description of a collective that MPI and NCCL run, that the simulator and the plan-only mode walk, and that bytes on
// the wire are counted from.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/node_map.h"

namespace faibench {

/// A rank's buffers, as a schedule names them. Offsets and counts are in elements of the buffer; the sizes of elements are the schedule's.
enum class Buffer : std::uint8_t {
  input,            ///< what the rank brings; never written
  output,           ///< what it ends with
  arrived,          ///< raw elements of other ranks, as they were in `input`
  partial,          ///< sums under way, in the wider type
  arrived_partial,  ///< sums of other ranks under way
};
inline constexpr std::size_t buffer_kinds = 5;

struct Region {
  Buffer buffer = Buffer::input;
  std::int64_t offset = 0, count = 0;
};

/// One message as one of its two ranks sees it: `here` is its own side, `there` the peer's. Counts are equal and never 0.
struct Message {
  int peer = -1;
  Region here, there;
};

/// into = terms[0] + terms[1] + ... in that order; where `into` is in the output buffer the sum is finished there (the task's own last step: bias, mean, rounding).
/// One term: a conversion or copy. `into` may be one of the terms, element for element; it overlaps no other.
struct Sum {
  std::vector<Region> terms;
  Region into;
};

/// What a rank does in a round: sends and receives all at once, then its sums in order. Messages between two ranks match in order.
struct Round {
  std::vector<Message> sends, receives;
  std::vector<Sum> sums;
};

/// Immutable; every rank can ask for any rank's part, so schedules cost no message.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// "two-shot direct", "recursive doubling", ...
  [[nodiscard]] virtual std::string algorithm() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  [[nodiscard]] virtual int rounds() const = 0;
  /// O(messages of that rank in that round).
  [[nodiscard]] virtual Round round(int rank, int index) const = 0;
  /// Elements that `rank` needs of each buffer.
  [[nodiscard]] virtual std::array<std::int64_t, buffer_kinds> room(int rank) const = 0;
  /// Bytes of an element of each buffer.
  [[nodiscard]] const std::array<std::int64_t, buffer_kinds>& element_bytes() const { return element_bytes_; }
  [[nodiscard]] std::int64_t bytes_of(const Region& region) const { return region.count * element_bytes_[static_cast<std::size_t>(region.buffer)]; }

 protected:
  explicit Schedule(std::array<std::int64_t, buffer_kinds> element_bytes) : element_bytes_(element_bytes) {}

 private:
  std::array<std::int64_t, buffer_kinds> element_bytes_;
};

/// How to sum over ranks. The first three add every element once, in ascending rank: their bits are those of one process for every P, size and chunk.
enum class AllReduce : std::uint8_t {
  one_shot,            ///< whole inputs to all; 1 round, (P-1)*L elements in
  two_shot,            ///< direct reduce-scatter and all-gather; 2 rounds, 2(P-1)/P*L elements
  raw_halving,         ///< raw elements by recursive halving (folded first), sums back by doubling: 2 log2 P rounds, (log2 P / 2 + 1)L elements; packs raw elements within `arrived` by sums of one term
  recursive_doubling,  ///< log2 P rounds of whole partial sums (folded first where P is no power of two); equal bits on all ranks
  halving_doubling,    ///< recursive halving, then doubling; 2 log2 P rounds, 2(P-1)/P*L
  ring,                ///< 2(P-1) rounds
  hierarchical,        ///< in the node, between nodes on as many rails as a node has ranks, in the node; needs a uniform NodeMap; one node: two_shot
};
std::string_view name_of(AllReduce algorithm);

/// Sum of `count` elements over all ranks. `wire_bytes`: an element of input and output; `partial_bytes`: of a sum under way.
/// Throws Error(internal) where the algorithm cannot serve these nodes.
std::unique_ptr<Schedule> all_reduce_schedule(AllReduce algorithm, std::int64_t count, const NodeMap& nodes, std::int64_t wire_bytes, std::int64_t partial_bytes);

enum class AllGather : std::uint8_t {
  direct,    ///< everybody to everybody, 1 round
  ring,      ///< P-1 rounds, neighbours only
  log_step,  ///< ceil(log2 P) rounds of growing runs of blocks (Bruck), straight into place
};
std::string_view name_of(AllGather algorithm);

/// Rank r brings counts[r] elements (in `input`); all end with the concatenation in rank order (in `output`). The own block is copied there by a Sum of one term.
std::unique_ptr<Schedule> all_gather_schedule(AllGather algorithm, std::span<const std::int64_t> counts, const NodeMap& nodes, std::int64_t element_bytes);

/// One after another, each with buffers of its own, in bytes; at least one part, all for equally many ranks. To be counted and forecast as one.
std::shared_ptr<const Schedule> sequence_schedule(std::vector<std::shared_ptr<const Schedule>> parts);

/// One message of a sparse all-to-all: elements of sender's `input` (packed) to receiver's `output` (packed).
struct PairTraffic {
  int from = 0, to = 0;
  std::int64_t from_offset = 0, to_offset = 0, count = 0;
};
/// Asked for one rank, tells all messages it sends or receives, itself apart; the same rule on both sides. Must list them in ascending (from, to).
using PairsOf = std::function<std::vector<PairTraffic>(int rank)>;
/// Rounds of at most `window` partners each way: in round k the partners at distance k*window+1 .. (k+1)*window, so that no receiver is everybody's first.
std::unique_ptr<Schedule> all_to_all_schedule(int ranks, PairsOf pairs, std::span<const std::array<std::int64_t, 2>> room_in_out, int window, std::int64_t element_bytes);

}  // namespace faibench
