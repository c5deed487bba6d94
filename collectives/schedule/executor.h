// Runs a schedule on a communicator, whatever its transport.
#pragma once
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "communicator/communicator.h"
#include "schedule/schedule.h"

namespace faibench {

/// What an executor asks the task to add up: `terms` and `into` point at element `offset` of the vector (offset of Sum::into); see Sum for the order.
struct SumCall {
  struct Term { const void* data; Buffer buffer; };
  std::span<const Term> terms;
  void* into;
  Buffer into_buffer;
  std::int64_t offset, count;
};
using SumFunction = std::function<void(const SumCall&)>;

/// Base addresses of a rank's buffers, at least schedule.room(rank) elements each; null where the room is 0. The executor makes room for `arrived`, `partial` and `arrived_partial` itself where null.
using BufferBases = std::array<void*, buffer_kinds>;

/// Bytes this rank sent and received while executing, by level ([0] in the node, [1] between nodes), with a message or without.
struct Executed {
  std::int64_t bytes_sent[2] = {0, 0}, bytes_received[2] = {0, 0};
  std::int64_t bytes_read = 0;  ///< of those received: read straight from a peer's registered memory
  std::int64_t messages_sent = 0;
  int rounds = 0;
};

/// Sums over all schedules that this thread has executed: what is there after a call and was not before is that call's.
const Executed& executed_so_far();

/// Collective over the schedule's ranks. Elements travel as bytes. Throws what the communicator throws.
/// A buffer that lies in memory from Communicator::share() must do so on all ranks, at the same place of it: ranks of the node then read it there, between two barriers of the node,
/// and no message is sent. That rule is what lets all ranks decide alike without asking each other.
Executed execute(const Schedule& schedule, Communicator& communicator, const BufferBases& bases, const SumFunction& sum);

/// One step of a pipeline: a schedule over its own part of the buffers.
struct Stage {
  const Schedule* schedule;
  BufferBases bases;
  std::function<void()> before;  ///< called when the stage may start (pack, compress); may be empty
  std::function<void()> after;   ///< called when its output is there (unpack, apply); may be empty
};
/// Stages start in order, each a round behind the one before, at most `depth` under way: while stage k adds, the messages of k+1 travel. Sums get the stage's index.
Executed execute_pipelined(std::span<const Stage> stages, int depth, Communicator& communicator, const std::function<void(std::size_t stage, const SumCall&)>& sum);

}  // namespace faibench
