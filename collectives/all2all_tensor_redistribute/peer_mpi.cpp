// What a library gives: pack all messages, its irregular all-to-all, unpack all.
#include <vector>

#include "collectives/all2all_tensor_redistribute/agreement.h"
#include "communicator/communicator.h"

namespace faibench::all2all_tensor_redistribute {

Rejected run_peer_mpi(MultiRank::Call& call) {
  Communicator& communicator = call.communicator;
  const Shard shard(call);
  bool unused = true;
  if (auto rejected = compare_ranks(communicator, shard, unused)) return rejected;
  const int rank = communicator.rank();
  const Redistribution plan = shard.plan();
  call.arguments.lengths.set("T", plan.target().size(rank));
  const std::vector<Transfer> incoming = plan.incoming(rank, communicator.nodes());
  std::vector<Transfer> outgoing = plan.outgoing(rank, communicator.nodes());
  for (const Transfer& transfer : incoming)
    if (transfer.from == rank) outgoing.push_back(transfer);

  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::int64_t> send_counts(ranks), send_offsets(ranks), receive_counts(ranks), receive_offsets(ranks);
  std::int64_t sent = 0, received = 0;
  for (const Transfer& transfer : outgoing) {
    send_counts[static_cast<std::size_t>(transfer.to)] = transfer.count;
    send_offsets[static_cast<std::size_t>(transfer.to)] = sent;
    sent += transfer.count;
  }
  for (const Transfer& transfer : incoming) {
    receive_counts[static_cast<std::size_t>(transfer.from)] = transfer.count;
    receive_offsets[static_cast<std::size_t>(transfer.from)] = received;
    received += transfer.count;
  }
  std::byte* const packed = communicator.scratch((sent + received) * shard.element);
  std::byte* const arrived = packed + sent * shard.element;
  for (const Transfer& transfer : outgoing)
    copy_strided(plan.pack(transfer), shard.source, packed + send_offsets[static_cast<std::size_t>(transfer.to)] * shard.element, shard.element, Store::cached);
  communicator.library_all_to_all(packed, send_counts, send_offsets, arrived, receive_counts, receive_offsets, shard.dtype);
  for (const Transfer& transfer : incoming)
    copy_strided(plan.unpack(transfer), arrived + receive_offsets[static_cast<std::size_t>(transfer.from)] * shard.element, shard.target, shard.element, Store::cached);
  return std::nullopt;
}

}  // namespace faibench::all2all_tensor_redistribute
