// Box intersections alone (box_plan.cpp): a rank has a message for those that need a part of its shard, and no other.
// Messages: partner after partner by their shift in the mesh, so that nobody is everybody's first; a message is packed while those before it travel, what a rank keeps is copied
// under them, and what lies in one run on a side is sent from there, or received there, without a copy.
// Bound: max over ranks of max(bytes in, bytes out) through its link.
// Shared shards: the receiver copies from the owner's shard to its own, n read and n written; pack, all-to-all and unpack come to four copies.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/all2all_tensor_redistribute/agreement.h"
#include "collectives/all2all_tensor_redistribute/ranks.h"
#include "communicator/communicator.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

constexpr std::int64_t cached_bytes = 16 << 20;  // of all shards of a node, before and after: up to here most stay in the cache that its ranks share (32 MiB, with other data in it)

/// The shift from one place of the mesh to another, each axis around by itself, as one number. For every shift each rank has one rank to send to and one to receive from, in the same
/// part of the mesh if the redistribution stays in parts: so all send and receive all the time, and nobody is everybody's first.
int shift(std::span<const std::int64_t> mesh, std::int64_t from, std::int64_t to) {
  std::int64_t result = 0, unit = 1;
  for (std::size_t a = mesh.size(); a-- > 0; unit *= mesh[a], from /= mesh[a], to /= mesh[a]) result += (to % mesh[a] - from % mesh[a] + mesh[a]) % mesh[a] * unit;
  return static_cast<int>(result);
}

/// What a rank sends and receives at one shift.
struct Step {
  int shift = 0;
  const Transfer *out = nullptr, *in = nullptr;
};

/// In the same order on all ranks.
std::vector<Step> steps_of(const std::vector<Transfer>& outgoing, const std::vector<Transfer>& incoming, std::span<const std::int64_t> mesh) {
  std::vector<Step> steps;
  for (const Transfer& transfer : outgoing) steps.push_back({shift(mesh, transfer.from, transfer.to), &transfer, nullptr});
  for (const Transfer& transfer : incoming) steps.push_back({shift(mesh, transfer.from, transfer.to), nullptr, &transfer});
  std::ranges::stable_sort(steps, {}, &Step::shift);
  std::size_t kept = 0;
  for (const Step& step : steps) {
    if (kept > 0 && steps[kept - 1].shift == step.shift) steps[kept - 1].in = step.in;
    else steps[kept++] = step;
  }
  steps.resize(kept);
  return steps;
}

/// Messages under way, in the order of their start.
class Messages {
 public:
  Messages(Communicator& communicator, const Shard& shard, const Redistribution& plan, std::span<const Step> steps) : communicator_(communicator), shard_(shard), plan_(plan) {
    std::int64_t bytes = 0;
    for (const Step& step : steps) {
      if (step.in && plan.unpack(*step.in).loops > 0) bytes += rounded(step.in->count);
      if (step.out && plan.pack(*step.out).loops > 0) bytes += rounded(step.out->count);
    }
    next_room_ = communicator.scratch(bytes);
  }

  void start(const Step& step) {
    if (under_way_.size() == static_cast<std::size_t>(most_under_way)) finish_first();
    UnderWay& now = under_way_.emplace_back();
    std::optional<Incoming> incoming;
    std::optional<Outgoing> outgoing;
    if (step.in) {
      now.unpack = plan_.unpack(*step.in);
      now.in_place = now.unpack.loops == 0;
      if (!now.in_place) now.arrived = room(step.in->count);
      incoming = {now.in_place ? shard_.target + now.unpack.to * shard_.element : now.arrived, step.in->count, step.in->from};
    }
    if (step.out) {
      const StridedCopy pack = plan_.pack(*step.out);
      const std::byte* data = shard_.source + pack.from * shard_.element;
      if (pack.loops > 0) {
        std::byte* const packed = room(step.out->count);
        copy_strided(pack, shard_.source, packed, shard_.element, Store::cached);
        data = packed;
      }
      outgoing = {data, step.out->count, step.out->to};
    }
    now.exchange = communicator_.start_exchange({outgoing ? &*outgoing : nullptr, outgoing ? 1u : 0u}, {incoming ? &*incoming : nullptr, incoming ? 1u : 0u}, shard_.dtype);
  }
  void finish() {
    while (!under_way_.empty()) finish_first();
  }

 private:
  struct UnderWay {
    std::byte* arrived = nullptr;
    StridedCopy unpack;
    bool in_place = true;
    std::unique_ptr<Exchange> exchange;
  };
  [[nodiscard]] std::int64_t rounded(std::int64_t count) const { return (count * shard_.element + 63) / 64 * 64; }  // no line belongs to two messages
  std::byte* room(std::int64_t count) {
    std::byte* const given = next_room_;
    next_room_ += rounded(count);
    return given;
  }
  void finish_first() {
    UnderWay& first = under_way_.front();
    first.exchange->wait();
    if (!first.in_place) copy_strided(first.unpack, first.arrived, shard_.target, shard_.element, Store::cached);
    under_way_.pop_front();
  }

  Communicator& communicator_;
  const Shard& shard_;
  const Redistribution& plan_;
  std::byte* next_room_;
  std::deque<UnderWay> under_way_;
};

/// `pulls`: ranks of one node copy straight from each other's shards.
void move(Communicator& communicator, const Shard& shard, const Redistribution& plan, bool pulls) {
  const int rank = communicator.rank();
  const auto mesh = shard.numbers("mesh");
  std::vector<Transfer> incoming = plan.incoming(rank, communicator.nodes()), outgoing = plan.outgoing(rank, communicator.nodes()), near;
  std::optional<Transfer> own;
  const auto is_near = [&](int peer) { return pulls && communicator.nodes().same_node(peer, rank); };
  std::erase_if(incoming, [&](const Transfer& transfer) {
    if (transfer.from == rank) own = transfer;
    else if (is_near(transfer.from)) near.push_back(transfer);
    return transfer.from == rank || is_near(transfer.from);
  });
  std::erase_if(outgoing, [&](const Transfer& transfer) { return is_near(transfer.to); });

  const std::vector<Step> steps = steps_of(outgoing, incoming, mesh);
  Messages messages(communicator, shard, plan, steps);
  for (const Step& step : steps) messages.start(step);
  const auto on_node = static_cast<std::int64_t>(communicator.nodes().members(communicator.nodes().node_of(rank)).size());
  const Store store = (plan.source().size(rank) + plan.target().size(rank)) * shard.element * on_node > cached_bytes ? Store::streamed : Store::cached;
  std::ranges::sort(near, {}, [&](const Transfer& transfer) { return shift(mesh, transfer.from, rank); });  // not everybody reads the same one first
  if (own) near.push_back(*own);
  const auto source_of = [&](const Transfer& transfer) { return transfer.from == rank ? shard.source : communicator.peer_address(transfer.from, shard.source); };
  for (std::size_t i = 0; i < near.size(); ++i) {
    const std::byte* const next = i + 1 < near.size() ? source_of(near[i + 1]) + plan.direct(near[i + 1]).from * shard.element : nullptr;
    copy_strided(plan.direct(near[i]), source_of(near[i]), shard.target, shard.element, store, next);
  }
  if (store == Store::streamed) flush_streams();
  messages.finish();
  if (pulls) communicator.node_barrier();  // what others read is theirs until they have
}

Rejected compare_and_move(MultiRank::Call& call, bool pulls) {
  const Shard shard(call);
  Communicator& communicator = call.communicator;
  // Where ranks pull, the all-reduce is the barrier in front: after it all shards are there.
  if (auto rejected = compare_ranks(communicator, shard, pulls)) return rejected;
  const Redistribution plan = shard.plan();
  call.arguments.lengths.set("T", plan.target().size(communicator.rank()));
  move(communicator, shard, plan, pulls && communicator.size() > 1);
  return std::nullopt;
}

}  // namespace

Rejected run_mpi(MultiRank::Call& call) { return compare_and_move(call, false); }

Rejected run_mpi_registered(MultiRank::Call& call) {
  const Communicator& communicator = call.communicator;
  const std::byte* const source = call.arguments.inputs.at("src_data").data;
  bool pulls = true;
  for (const int peer : communicator.nodes().members(communicator.nodes().node_of(communicator.rank()))) pulls &= communicator.peer_address(peer, source) != nullptr;
  return compare_and_move(call, pulls);
}

}  // namespace faibench::all2all_tensor_redistribute
