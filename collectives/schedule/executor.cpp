#include "schedule/executor.h"

#include <cstddef>
#include <cstring>
#include <list>
#include <memory>
#include <string>

#include "tensor/error.h"

namespace faibench {
namespace {

constexpr std::array scratch_buffers = {Buffer::arrived, Buffer::partial, Buffer::arrived_partial};

/// One schedule under way on this rank: a round at a time, its messages first, its sums after.
class Run {
 public:
  Run(const Schedule& schedule, Communicator& communicator, const BufferBases& bases, const SumFunction& sum, Executed& executed)
      : schedule_(schedule), communicator_(communicator), bases_(bases), sum_(sum), executed_(executed) {
    const int rank = communicator.rank();
    if (schedule.ranks() != communicator.size()) {
      throw Error(Error::Kind::internal, "execute: a schedule for " + std::to_string(schedule.ranks()) + " ranks on " + std::to_string(communicator.size()));
    }
    const auto room = schedule.room(rank);
    for (const Buffer buffer : scratch_buffers) {
      const auto b = static_cast<std::size_t>(buffer);
      if (bases_[b] || room[b] == 0) continue;
      scratch_[b] = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room[b] * schedule.element_bytes()[b]));
      bases_[b] = scratch_[b].get();
    }
    const auto neighbours = communicator.nodes().members(communicator.nodes().node_of(rank));
    if (neighbours.size() < 2) return;
    const int neighbour = neighbours[0] == rank ? neighbours[1] : neighbours[0];
    for (std::size_t b = 0; b < buffer_kinds; ++b) {
      registered_[b] = bases_[b] && communicator.peer_address(neighbour, bases_[b]);
      any_registered_ |= registered_[b];
      changing_registered_ |= registered_[b] && static_cast<Buffer>(b) != Buffer::input;
    }
  }

  [[nodiscard]] bool done() const { return next_ == schedule_.rounds(); }

  /// Starts the messages of the next round.
  void start() {
    round_ = schedule_.round(communicator_.rank(), next_);
    outgoing_.clear();
    incoming_.clear();
    for (const Message& message : round_.sends) {
      const std::int64_t bytes = schedule_.bytes_of(message.here);
      executed_.bytes_sent[level(message.peer)] += bytes;
      if (read_directly(message.peer, message.here.buffer)) continue;
      outgoing_.push_back({at(message.here), bytes, message.peer});
      ++executed_.messages_sent;
    }
    for (const Message& message : round_.receives) {
      const std::int64_t bytes = schedule_.bytes_of(message.here);
      executed_.bytes_received[level(message.peer)] += bytes;
      if (!read_directly(message.peer, message.there.buffer)) incoming_.push_back({at(message.here), bytes, message.peer});
    }
    if (!outgoing_.empty() || !incoming_.empty()) exchange_ = communicator_.start_exchange(outgoing_, incoming_, Dtype::u8);
  }

  /// Waits for them, and adds.
  void finish() {
    if (any_registered_) read_peers();
    if (exchange_) exchange_->wait();
    exchange_.reset();
    for (const Sum& sum : round_.sums) add(sum);
    ++next_;
    ++executed_.rounds;
    // What peers read is theirs until they have: a rank that goes on changes it at once.
    if (done() && any_registered_ && !changing_registered_) communicator_.node_barrier();
  }

 private:
  // Peers have come to this round, so what they send is there; where it may change within the round, nobody adds before all have read.
  void read_peers() {
    communicator_.node_barrier();
    for (const Message& message : round_.receives) {
      if (!read_directly(message.peer, message.there.buffer)) continue;
      const auto b = static_cast<std::size_t>(message.there.buffer);
      const std::byte* theirs = communicator_.peer_address(message.peer, bases_[b]) + message.there.offset * schedule_.element_bytes()[b];
      const std::int64_t bytes = schedule_.bytes_of(message.here);
      std::memcpy(at(message.here), theirs, static_cast<std::size_t>(bytes));
      executed_.bytes_read += bytes;
    }
    if (changing_registered_) communicator_.node_barrier();
  }

  void add(const Sum& sum) {
    terms_.clear();
    for (const Region& term : sum.terms) terms_.push_back({at(term), term.buffer});
    sum_({terms_, at(sum.into), sum.into.buffer, sum.into.offset, sum.into.count});
  }

  [[nodiscard]] std::size_t level(int peer) const { return communicator_.nodes().same_node(peer, communicator_.rank()) ? 0 : 1; }
  [[nodiscard]] bool read_directly(int peer, Buffer buffer) const { return registered_[static_cast<std::size_t>(buffer)] && level(peer) == 0; }
  [[nodiscard]] std::byte* at(const Region& region) const {
    const auto b = static_cast<std::size_t>(region.buffer);
    if (!bases_[b]) throw Error(Error::Kind::internal, "execute: " + schedule_.algorithm() + " wants a buffer that was not given");
    return static_cast<std::byte*>(bases_[b]) + region.offset * schedule_.element_bytes()[b];
  }

  const Schedule& schedule_;
  Communicator& communicator_;
  BufferBases bases_;
  const SumFunction& sum_;
  Executed& executed_;
  std::array<std::unique_ptr<std::byte[]>, buffer_kinds> scratch_;
  std::array<bool, buffer_kinds> registered_{};
  bool any_registered_ = false, changing_registered_ = false;
  int next_ = 0;
  Round round_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<SumCall::Term> terms_;
  std::unique_ptr<Exchange> exchange_;  // goes first: it waits for what uses the rest
};

/// A stage under way, with the function that tells its sums apart.
struct Staged {
  Staged(std::size_t index, const Stage& stage, Communicator& communicator, const std::function<void(std::size_t, const SumCall&)>& sum, Executed& executed)
      : stage(stage), add([index, &sum](const SumCall& call) { sum(index, call); }), run(*stage.schedule, communicator, stage.bases, add, executed) {}
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  const Stage& stage;
  SumFunction add;
  Run run;
};

thread_local Executed so_far;

Executed counted(const Executed& executed) {
  for (const std::size_t level : {0, 1}) {
    so_far.bytes_sent[level] += executed.bytes_sent[level];
    so_far.bytes_received[level] += executed.bytes_received[level];
  }
  so_far.bytes_read += executed.bytes_read;
  so_far.messages_sent += executed.messages_sent;
  so_far.rounds += executed.rounds;
  return executed;
}

}  // namespace

const Executed& executed_so_far() { return so_far; }

Executed execute(const Schedule& schedule, Communicator& communicator, const BufferBases& bases, const SumFunction& sum) {
  Executed executed;
  Run run(schedule, communicator, bases, sum, executed);
  while (!run.done()) {
    run.start();
    run.finish();
  }
  return counted(executed);
}

// The order of starts is the same on all ranks, because it follows from the numbers of rounds alone: so messages match.
Executed execute_pipelined(std::span<const Stage> stages, int depth, Communicator& communicator, const std::function<void(std::size_t stage, const SumCall&)>& sum) {
  if (depth < 1) throw Error(Error::Kind::internal, "execute_pipelined: a depth of " + std::to_string(depth));
  Executed executed;
  std::list<Staged> under_way;
  for (std::size_t next = 0; next < stages.size() || !under_way.empty();) {
    const Staged* just_started = nullptr;  // its messages travel while the older ones add
    if (next < stages.size() && under_way.size() < static_cast<std::size_t>(depth)) {
      if (stages[next].before) stages[next].before();
      Staged& staged = under_way.emplace_back(next, stages[next], communicator, sum, executed);
      if (!staged.run.done()) staged.run.start();
      just_started = &staged;
      ++next;
    }
    for (Staged& staged : under_way) {
      if (&staged == just_started) break;
      if (!staged.run.done()) staged.run.finish();
      if (!staged.run.done()) staged.run.start();
      else if (staged.stage.after) staged.stage.after();
    }
    std::erase_if(under_way, [&](const Staged& staged) { return &staged != just_started && staged.run.done(); });
  }
  return counted(executed);
}

}  // namespace faibench
