// A double of NCCL: ranks are threads of this process, device memory is host memory, and what NCCL leaves to hang or corrupt is reported: unequal counts or types, a send without its receive,
// calls that had to be in one group, collectives in different order, a dead peer, groups that are not given back.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "communicator/communicator.h"
#include "communicator/nccl_library.h"
#include "tensor/error.h"
#include "tensor/half.h"

namespace faibench::testing_support {

/// What the ranks of one test share.
class NcclFabric {
 public:
  struct Operation {
    enum class Kind { send, receive, all_reduce, reduce, broadcast, copy } kind;
    const void* in = nullptr;
    void* out = nullptr;
    std::int64_t count = 0;
    Dtype dtype = Dtype::u8;
    Reduce op = Reduce::sum;
    int peer = -1;  ///< peer or root
    [[nodiscard]] std::string text() const {
      static const char* const names[] = {"send", "receive", "all_reduce", "reduce", "broadcast", "copy"};
      return std::string(names[static_cast<int>(kind)]) + " of " + std::to_string(count) + " " + std::string(name_of(dtype)) + (peer >= 0 ? " with rank " + std::to_string(peer) : "");
    }
  };
  struct World;
  /// Work between begin() and end(): progresses together, and keeps what comes after it waiting.
  struct Batch {
    World* world;
    std::vector<Operation> open;
  };
  struct World {
    int id = 0, ranks = 0;
    std::vector<bool> joined;
    std::vector<int> tasks;  ///< global rank of each member
    std::string error;
    std::map<int, std::map<int, std::pair<int, int>>> splits;  ///< by number of the split: rank -> (color, key)
  };
  struct Member { World* world; int rank; bool given_back = false; int splits = 0; };

  /// Marks a rank as gone: whoever waits for it hears of it.
  void kill(int global_rank) {
    const std::lock_guard lock(mutex);
    dead.insert(global_rank);
  }
  /// Groups nobody destroyed or aborted, and groups destroyed although they had failed.
  std::string complaints() {
    const std::lock_guard lock(mutex);
    std::string all = complaint;
    for (const auto& member : members)
      if (!member->given_back && !dead.contains(member->world->tasks[static_cast<std::size_t>(member->rank)])) all += "rank " + std::to_string(member->rank) + " keeps a group; ";
    return all;
  }

  std::mutex mutex;
  std::map<int, std::unique_ptr<World>> worlds;
  std::deque<std::unique_ptr<Member>> members;
  std::map<int, std::deque<Batch>> queues;  ///< by global rank: the stream
  std::set<int> dead;
  std::string complaint;
  int next_world = 1;
  std::uint64_t progress = 0;               ///< grows with everything that happens
  std::map<int, std::uint64_t> idle_since;  ///< by global rank: progress when it last looked in vain
  std::map<int, int> idle_looks;

  /// Moves what can move. With the lock held.
  void advance() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [rank, queue] : queues) moved |= advance_copies(queue);
      moved |= advance_messages() | advance_collectives();
      for (auto& [rank, queue] : queues)
        while (!queue.empty() && queue.front().open.empty()) {
          queue.pop_front();
          moved = true;
        }
      if (moved) ++progress;
    }
  }

  /// What a rank sees when it looks: an error of its group, or that all who live wait and nothing can move.
  void look_for_deadlock(int global_rank, World& world) {
    for (int peer = 0; peer < world.ranks; ++peer) {
      const int task = world.tasks[static_cast<std::size_t>(peer)];
      if (dead.contains(task) && world.error.empty()) world.error = "remote process of rank " + std::to_string(peer) + " exited";
    }
    if (queues[global_rank].empty()) return;
    if (idle_since[global_rank] != progress) idle_looks[global_rank] = 0;
    idle_since[global_rank] = progress;
    ++idle_looks[global_rank];
    std::string waiting;
    for (int peer = 0; peer < world.ranks; ++peer) {
      const int task = world.tasks[static_cast<std::size_t>(peer)];
      if (queues[task].empty() || idle_since[task] != progress || idle_looks[task] < 2000) return;
      waiting += "rank " + std::to_string(peer) + " waits in " + queues[task].front().open.front().text() + "; ";
    }
    if (world.error.empty()) world.error = "deadlock: " + waiting + "calls that need each other must be in one group";
  }

 private:
  static bool advance_copies(std::deque<Batch>& queue) {
    bool moved = false;
    while (!queue.empty() && !queue.front().open.empty() && queue.front().open.front().kind == Operation::Kind::copy) {
      const Operation& copy = queue.front().open.front();
      std::memcpy(copy.out, copy.in, static_cast<std::size_t>(copy.count));
      queue.front().open.erase(queue.front().open.begin());
      if (queue.front().open.empty()) queue.pop_front();
      moved = true;
    }
    return moved;
  }

  // The batch at the head of a member's stream, if it belongs to that world.
  Batch* head(World& world, int rank) {
    auto& queue = queues[world.tasks[static_cast<std::size_t>(rank)]];
    return !queue.empty() && queue.front().world == &world ? &queue.front() : nullptr;
  }

  bool advance_messages() {
    bool moved = false;
    for (auto& [id, world] : worlds) {
      if (!world->error.empty()) continue;
      for (int from = 0; from < world->ranks; ++from) {
        for (int to = 0; to < world->ranks; ++to) {
          Batch* sender = head(*world, from);
          Batch* receiver = head(*world, to);
          if (!sender || !receiver) continue;
          const auto send = std::ranges::find_if(sender->open, [&](const Operation& o) { return o.kind == Operation::Kind::send && o.peer == to; });
          const auto receive = std::ranges::find_if(receiver->open, [&](const Operation& o) { return o.kind == Operation::Kind::receive && o.peer == from; });
          if (send == sender->open.end() || receive == receiver->open.end()) continue;
          if (send->count != receive->count || send->dtype != receive->dtype) {
            world->error = "rank " + std::to_string(from) + " has a " + send->text() + " where rank " + std::to_string(to) + " has a " + receive->text();
            continue;
          }
          std::memmove(receive->out, send->in, static_cast<std::size_t>(send->count * size_of(send->dtype)));
          const Operation* const sent = &*send;
          const Operation* const received = &*receive;
          const auto send_index = sent - sender->open.data(), receive_index = received - receiver->open.data();
          if (sender == receiver) {
            sender->open.erase(sender->open.begin() + std::max(send_index, receive_index));
            sender->open.erase(sender->open.begin() + std::min(send_index, receive_index));
          } else {
            sender->open.erase(sender->open.begin() + send_index);
            receiver->open.erase(receiver->open.begin() + receive_index);
          }
          moved = true;
        }
      }
    }
    return moved;
  }

  static bool is_collective(const Operation& o) { return o.kind == Operation::Kind::all_reduce || o.kind == Operation::Kind::reduce || o.kind == Operation::Kind::broadcast; }

  bool advance_collectives() {
    bool moved = false;
    for (auto& [id, world] : worlds) {
      if (!world->error.empty()) continue;
      for (;;) {  // the first collective of every member, in the order of calls
        std::vector<Operation*> calls;
        for (int rank = 0; rank < world->ranks; ++rank) {
          Batch* batch = head(*world, rank);
          if (!batch) break;
          const auto found = std::ranges::find_if(batch->open, is_collective);
          if (found == batch->open.end()) break;
          calls.push_back(&*found);
        }
        if (static_cast<int>(calls.size()) < world->ranks) break;
        for (std::size_t rank = 1; rank < calls.size(); ++rank) {
          const Operation &a = *calls[0], &b = *calls[rank];
          if (a.kind != b.kind || a.count != b.count || a.dtype != b.dtype || a.op != b.op || a.peer != b.peer)
            world->error = "rank 0 calls " + a.text() + " where rank " + std::to_string(rank) + " calls " + b.text();
        }
        if (!world->error.empty()) break;
        perform(calls);
        for (int rank = 0; rank < world->ranks; ++rank) {
          Batch* batch = head(*world, rank);
          batch->open.erase(std::ranges::find_if(batch->open, is_collective));
        }
        moved = true;
      }
    }
    return moved;
  }

  template <class T>
  static void fold(std::vector<std::byte>& into, const void* from, std::int64_t count, Reduce op) {
    T* const a = reinterpret_cast<T*>(into.data());
    const T* const b = static_cast<const T*>(from);
    for (std::int64_t i = 0; i < count; ++i) a[i] = op == Reduce::sum ? static_cast<T>(a[i] + b[i]) : op == Reduce::min ? std::min(a[i], b[i]) : std::max(a[i], b[i]);
  }

  static void perform(const std::vector<Operation*>& calls) {
    const Operation& first = *calls[0];
    const auto bytes = static_cast<std::size_t>(first.count * size_of(first.dtype));
    std::vector<std::byte> result(bytes);
    if (first.kind == Operation::Kind::broadcast) {
      std::memcpy(result.data(), calls[static_cast<std::size_t>(first.peer)]->in, bytes);
    } else {
      std::memcpy(result.data(), first.in, bytes);
      for (std::size_t rank = 1; rank < calls.size(); ++rank) {
        switch (first.dtype) {
          case Dtype::f32: fold<float>(result, calls[rank]->in, first.count, first.op); break;
          case Dtype::f64: fold<double>(result, calls[rank]->in, first.count, first.op); break;
          case Dtype::i32: fold<std::int32_t>(result, calls[rank]->in, first.count, first.op); break;
          case Dtype::u32: fold<std::uint32_t>(result, calls[rank]->in, first.count, first.op); break;
          case Dtype::i64: fold<std::int64_t>(result, calls[rank]->in, first.count, first.op); break;
          case Dtype::u64: fold<std::uint64_t>(result, calls[rank]->in, first.count, first.op); break;
          case Dtype::i8: fold<std::int8_t>(result, calls[rank]->in, first.count, first.op); break;
          default: fold<std::uint8_t>(result, calls[rank]->in, first.count, first.op); break;
        }
      }
    }
    for (std::size_t rank = 0; rank < calls.size(); ++rank)
      if (calls[rank]->out && (first.kind != Operation::Kind::reduce || static_cast<int>(rank) == first.peer)) std::memcpy(calls[rank]->out, result.data(), bytes);
  }
};

/// One rank's double.
class FakeNccl final : public NcclLibrary {
 public:
  FakeNccl(NcclFabric& fabric, int global_rank) : fabric_(fabric), me_(global_rank) {}
  ~FakeNccl() override {
    const std::lock_guard lock(fabric_.mutex);
    if (!memory_.empty()) fabric_.complaint += "rank " + std::to_string(me_) + " leaks device memory; ";
  }

  Id unique_id() override {
    const std::lock_guard lock(fabric_.mutex);
    Id id{};
    const int number = fabric_.next_world++;
    std::memcpy(id.data(), &number, sizeof number);
    return id;
  }
  Group* start(const Id& id, int ranks, int rank) override {
    const std::lock_guard lock(fabric_.mutex);
    int number = 0;
    std::memcpy(&number, id.data(), sizeof number);
    return join(number, ranks, rank);
  }
  Group* split(Group* group, int color, int key) override {
    const std::lock_guard lock(fabric_.mutex);
    auto* member = as_member(group);
    const int turn = member->splits++;
    auto& asked = member->world->splits[turn];
    asked[member->rank] = {color, key};
    if (color < 0) return nullptr;
    // The new group is known when all have asked: its number follows from the old one's, the turn and the color.
    pending_ = Pending{member->world, turn, color};
    auto owner = std::make_unique<NcclFabric::Member>(NcclFabric::Member{nullptr, member->rank});
    fabric_.members.push_back(std::move(owner));
    pending_->member = fabric_.members.back().get();
    pending_->member->world = member->world;  // until then: errors of the parent are its own
    return reinterpret_cast<Group*>(pending_->member);
  }
  State state(Group* group) override {
    const std::lock_guard lock(fabric_.mutex);
    finish_split();
    auto* member = as_member(group);
    fabric_.advance();
    fabric_.look_for_deadlock(me_, *member->world);
    if (!member->world->error.empty()) return {false, member->world->error};
    const bool all_here = std::ranges::all_of(member->world->joined, [](bool j) { return j; });
    return {!all_here || (pending_ && pending_->member == member), {}};
  }
  void destroy(Group* group) override {
    const std::lock_guard lock(fabric_.mutex);
    auto* member = as_member(group);
    if (!member->world->error.empty() && !fabric_.dead.contains(me_)) fabric_.complaint += "rank " + std::to_string(member->rank) + " destroys a group that failed instead of aborting it; ";
    member->given_back = true;
  }
  void abort(Group* group) override {
    const std::lock_guard lock(fabric_.mutex);
    auto* member = as_member(group);
    member->given_back = true;
    fabric_.queues[me_].clear();
    if (member->world->error.empty()) member->world->error = "rank " + std::to_string(member->rank) + " aborted";
  }

  void begin() override { ++depth_; }
  void end(Group* group) override {
    if (--depth_ > 0 || batch_.empty()) return;
    const std::lock_guard lock(fabric_.mutex);
    fabric_.queues[me_].push_back({as_member(group)->world, std::move(batch_)});
    batch_.clear();
  }
  void send(Group* group, const void* device, std::int64_t count, Dtype dtype, int to) override { add(group, {Kind::send, device, nullptr, count, dtype, Reduce::sum, to}); }
  void receive(Group* group, void* device, std::int64_t count, Dtype dtype, int from) override { add(group, {Kind::receive, nullptr, device, count, dtype, Reduce::sum, from}); }
  void all_reduce(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) override { add(group, {Kind::all_reduce, in, out, count, dtype, op, -1}); }
  void reduce(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op, int root) override { add(group, {Kind::reduce, in, out, count, dtype, op, root}); }
  void broadcast(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, int root) override { add(group, {Kind::broadcast, in, out, count, dtype, Reduce::sum, root}); }

  void* allocate(std::int64_t bytes) override {
    auto block = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes));
    void* const address = block.get();
    memory_[address] = std::move(block);
    return address;
  }
  void free(void* device) override {
    const std::lock_guard lock(fabric_.mutex);
    auto& queue = fabric_.queues[me_];
    const bool in_use = std::ranges::any_of(queue, [&](const NcclFabric::Batch& batch) {
      return std::ranges::any_of(batch.open, [&](const NcclFabric::Operation& o) { return o.in == device || o.out == device; });
    });
    if (in_use) {  // nobody may write there any more
      fabric_.complaint += "rank " + std::to_string(me_) + " frees device memory that its stream still uses; ";
      queue.clear();
    }
    if (memory_.erase(device) == 0) fabric_.complaint += "rank " + std::to_string(me_) + " frees what is no device memory; ";
  }
  void copy_in(void* device, const void* host, std::int64_t bytes) override { queue_copy(device, host, bytes); }
  void copy_out(void* host, const void* device, std::int64_t bytes) override { queue_copy(host, device, bytes); }
  bool ready() override {
    const std::lock_guard lock(fabric_.mutex);
    fabric_.advance();
    return fabric_.queues[me_].empty();
  }

 private:
  using Kind = NcclFabric::Operation::Kind;
  struct Pending {
    NcclFabric::World* parent;
    int turn, color;
    NcclFabric::Member* member = nullptr;
  };

  static NcclFabric::Member* as_member(Group* group) { return reinterpret_cast<NcclFabric::Member*>(group); }

  Group* join(int number, int ranks, int rank) {
    auto& world = fabric_.worlds[number];
    if (!world) world = std::make_unique<NcclFabric::World>(NcclFabric::World{number, ranks, std::vector<bool>(static_cast<std::size_t>(ranks)), std::vector<int>(static_cast<std::size_t>(ranks), -1), {}, {}});
    if (world->ranks != ranks) world->error = "ranks disagree on the size of the group";
    world->joined[static_cast<std::size_t>(rank)] = true;
    world->tasks[static_cast<std::size_t>(rank)] = me_;
    fabric_.members.push_back(std::make_unique<NcclFabric::Member>(NcclFabric::Member{world.get(), rank}));
    return reinterpret_cast<Group*>(fabric_.members.back().get());
  }

  void finish_split() {
    if (!pending_) return;
    const auto& asked = pending_->parent->splits[pending_->turn];
    if (static_cast<int>(asked.size()) < pending_->parent->ranks) return;
    std::vector<std::pair<int, int>> order;  // key, old rank
    for (const auto& [rank, wish] : asked)
      if (wish.first == pending_->color) order.emplace_back(wish.second, rank);
    std::ranges::sort(order);
    const int own = pending_->member->rank;
    const auto place = std::ranges::find_if(order, [&](const auto& o) { return o.second == own; }) - order.begin();
    const int number = 1'000'000 + pending_->parent->id * 10'000 + pending_->turn * 100 + pending_->color;
    auto* joined = as_member(join(number, static_cast<int>(order.size()), static_cast<int>(place)));
    pending_->member->world = joined->world;
    pending_->member->rank = joined->rank;
    joined->given_back = true;  // one member stands for both
    pending_.reset();
  }

  void add(Group* group, const NcclFabric::Operation& operation) {
    batch_.push_back(operation);
    if (depth_ > 0) return;
    depth_ = 1;
    end(group);
  }
  void queue_copy(void* to, const void* from, std::int64_t bytes) {
    const std::lock_guard lock(fabric_.mutex);
    fabric_.queues[me_].push_back({nullptr, {{Kind::copy, from, to, bytes, Dtype::u8, Reduce::sum, -1}}});
  }

  NcclFabric& fabric_;
  int me_, depth_ = 0;
  std::vector<NcclFabric::Operation> batch_;
  std::map<void*, std::unique_ptr<std::byte[]>> memory_;
  std::optional<Pending> pending_;
};

}  // namespace faibench::testing_support
