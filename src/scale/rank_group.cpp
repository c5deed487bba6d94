#include "scale/rank_group.h"

#include <algorithm>
#include <vector>

#include "cluster/gang_member.h"
#include "communicator/mpi_communicator.h"
#include "scale/measure.h"

namespace faibench::scale {
namespace {

// The fastest of several round trips between rank 0 and `peer`, `messages` of `bytes` at once each way, halved.
double one_way(Communicator& communicator, int peer, std::int64_t bytes, int messages) {
  constexpr int trips = 60;
  std::vector<char> buffer(static_cast<std::size_t>(bytes * messages));
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  const int other = communicator.rank() == 0 ? peer : 0;
  for (int m = 0; m < messages; ++m) {
    out.push_back({buffer.data() + m * bytes, bytes, other});
    in.push_back({buffer.data() + m * bytes, bytes, other});
  }
  double fastest = 1e300;
  for (int i = 0; i < trips && (communicator.rank() == 0 || communicator.rank() == peer); ++i) {
    const double start = own_clock();
    for (const bool zero_sends : {true, false}) {
      if (zero_sends == (communicator.rank() == 0)) communicator.start_exchange(out, {}, Dtype::u8)->wait();
      else communicator.start_exchange({}, in, Dtype::u8)->wait();
    }
    fastest = std::min(fastest, (own_clock() - start) / 2);
  }
  communicator.broadcast(&fastest, 1, Dtype::f64, 0);
  return fastest;
}

// alpha, beta and the handling of one more message between rank 0 and the first rank at each level, by ping-pong: of the fastest, as a bound wants.
CostModel measure_links(Communicator& communicator, const MpiOptions& options) {
  constexpr std::int64_t few = 8, most_pieces = 64;  // of a message: a million pieces of one byte would take for ever
  const std::int64_t many = std::min<std::int64_t>(1 << 20, most_pieces * std::min<std::int64_t>({1 << 20, options.chunk_limit, options.network_piece_bytes}));
  constexpr int burst = 16;
  CostModel model;
  const NodeMap& nodes = communicator.nodes();
  for (int level = 0; level < 2; ++level) {
    int peer = 1;
    while (peer < communicator.size() && nodes.same_node(0, peer) != (level == 0)) ++peer;
    if (peer == communicator.size()) continue;
    model.alpha[level] = one_way(communicator, peer, few, 1);
    model.beta[level] = std::max(0.0, one_way(communicator, peer, many, 1) - model.alpha[level]) / static_cast<double>(many);
    model.overhead[level] = std::max(0.0, one_way(communicator, peer, few, burst) - model.alpha[level]) / (burst - 1);
  }
  return model;
}

}  // namespace

RankGroup::RankGroup(int n, int rank, int cores) {
  MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &raw_);
  if (raw_ == MPI_COMM_NULL) return;
  const MpiOptions options = mpi_options_from_environment();
  communicator = mpi_communicator(raw_, options);
  clock = synchronise(*communicator, 1.0);
  links = measure_links(*communicator, options);
  double own_error = clock.error;
  communicator->all_reduce(&own_error, &clock_error, 1, Dtype::f64, Reduce::max);
  const NodeMap& nodes = communicator->nodes();
  for (int node = 0; node < nodes.nodes(); ++node) oversubscribed = oversubscribed || static_cast<int>(nodes.members(node).size()) > cores;
}

RankGroup::~RankGroup() {
  nccl_.reset();
  communicator.reset();
  if (raw_ != MPI_COMM_NULL) MPI_Comm_free(&raw_);
}

Communicator* RankGroup::transport(const MultiRank::RankVariant& variant, std::string& why_not) {
  why_not.clear();
  if (!variant.on_nccl) return nullptr;
  if (!nccl_tried_) nccl_ = transport_of(variant, *communicator, why_no_nccl_);
  nccl_tried_ = true;
  if (!nccl_) why_not = why_no_nccl_;
  return nccl_.get();
}

}  // namespace faibench::scale
