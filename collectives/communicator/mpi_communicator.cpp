#include "communicator/mpi_communicator.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "communicator/mpi_node.h"
#include "tensor/error.h"

namespace faibench {
namespace {

constexpr int direct_tag = 0, exchange_tag = 1;

void check(int status, const char* call) { check_mpi(status, call); }

/// For moving: 16-bit floats and bool travel as integers of their size.
MPI_Datatype moved_as(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: case Dtype::bf16: case Dtype::i16: return MPI_INT16_T;
    case Dtype::f32: return MPI_FLOAT;
    case Dtype::f64: return MPI_DOUBLE;
    case Dtype::i8: return MPI_INT8_T;
    case Dtype::i32: return MPI_INT32_T;
    case Dtype::u32: return MPI_UINT32_T;
    case Dtype::i64: return MPI_INT64_T;
    case Dtype::u64: return MPI_UINT64_T;
    case Dtype::u8: case Dtype::bool_: break;
  }
  return MPI_UINT8_T;
}

MPI_Datatype reduced_as(Dtype dtype) {
  if (dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::bool_)
    throw Error(Error::Kind::internal, "MPI cannot reduce " + std::string(name_of(dtype)) + ": convert to f32 first, or move the elements and add them here");
  return moved_as(dtype);
}

MPI_Op to_mpi(Reduce op) { return op == Reduce::sum ? MPI_SUM : op == Reduce::min ? MPI_MIN : MPI_MAX; }

const std::byte* at(const void* data, std::int64_t element, Dtype dtype) { return static_cast<const std::byte*>(data) + element * size_of(dtype); }
std::byte* at(void* data, std::int64_t element, Dtype dtype) { return static_cast<std::byte*>(data) + element * size_of(dtype); }

/// Messages in flight. The buffers they use must outlive this.
class MpiExchange final : public Exchange {
 public:
  explicit MpiExchange(std::vector<MPI_Request> requests) : requests_(std::move(requests)) {}
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;
  ~MpiExchange() override { wait_all(); }
  void wait() override { check(wait_all(), "MPI_Waitall"); }

 private:
  int wait_all() {
    if (requests_.empty()) return MPI_SUCCESS;
    std::vector<MPI_Status> states(requests_.size());
    const int status = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), states.data());
    requests_.clear();
    if (status != MPI_ERR_IN_STATUS) return status;
    for (const MPI_Status& state : states)
      if (state.MPI_ERROR != MPI_SUCCESS && state.MPI_ERROR != MPI_ERR_PENDING) return state.MPI_ERROR;
    return status;
  }
  std::vector<MPI_Request> requests_;
};

class MpiCommunicator final : public Communicator {
 public:
  /// Takes over `owned`.
  MpiCommunicator(MPI_Comm owned, const MpiOptions& options) : comm_(owned), options_(options), limit_(options.chunk_limit) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    node_.emplace(comm_, options.ranks_per_node, options.shared_memory, options.peer_reads);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override {
    node_.reset();
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view transport() const override { return "MPI"; }
  const NodeMap& nodes() const override { return node_->map(); }
  std::unique_ptr<SharedMemory> share(std::int64_t bytes) override { return node_->share(bytes); }
  std::string why_not_shared() const override { return node_->why_not_shared(); }
  const std::byte* peer_address(int rank, const void* own) const override { return node_->peer_address(rank, own); }
  Board* board() override { return node_->board(); }
  void node_barrier() override { node_->barrier(); }
  bool reads_peers() const override { return node_->reads_peers(); }
  void read_peer(int rank, const void* theirs, void* here, std::int64_t bytes) override { node_->read_peer(rank, theirs, here, bytes); }
  void barrier() override { check(MPI_Barrier(comm_), "MPI_Barrier"); }

  void all_reduce(const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) override {
    const MPI_Datatype type = reduced_as(dtype);
    for_chunks(count, [&](std::int64_t first, int n) {
      check(MPI_Allreduce(in == out ? MPI_IN_PLACE : at(in, first, dtype), at(out, first, dtype), n, type, to_mpi(op), comm_), "MPI_Allreduce");
    });
  }

  void reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype, Reduce op) override {
    const MPI_Datatype type = reduced_as(dtype);
    if (const auto small = as_ints(checked(counts, "reduce_scatter"))) {
      check(MPI_Reduce_scatter(in, out, small->data(), type, to_mpi(op), comm_), "MPI_Reduce_scatter");
      return;
    }
    std::int64_t offset = 0;  // counts are the same on all ranks, so all come here together
    for (int root = 0; root < size_; ++root) {
      const std::int64_t count = counts[static_cast<std::size_t>(root)];
      for_chunks(count, [&](std::int64_t first, int n) {
        check(MPI_Reduce(at(in, offset + first, dtype), rank_ == root ? at(out, first, dtype) : nullptr, n, type, to_mpi(op), root, comm_), "MPI_Reduce");
      });
      offset += count;
    }
  }

  void all_gather(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype) override {
    const auto small = as_ints(checked(counts, "all_gather"));
    std::vector<std::int64_t> offsets(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), std::int64_t{0});
    std::byte* const own = at(out, offsets[static_cast<std::size_t>(rank_)], dtype);
    const std::int64_t own_count = counts[static_cast<std::size_t>(rank_)];
    if (small) {
      const std::vector<int> displacements(offsets.begin(), offsets.end());
      check(MPI_Allgatherv(in == own ? MPI_IN_PLACE : in, (*small)[static_cast<std::size_t>(rank_)], moved_as(dtype), out, small->data(), displacements.data(), moved_as(dtype), comm_),
            "MPI_Allgatherv");
      return;
    }
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int peer : peers()) {
      outgoing.push_back({in, own_count, peer});
      incoming.push_back({at(out, offsets[static_cast<std::size_t>(peer)], dtype), counts[static_cast<std::size_t>(peer)], peer});
    }
    auto exchange = start_exchange(outgoing, incoming, dtype);
    copy(in, own, own_count, dtype);
    exchange->wait();
  }

  // Messages of its own, never MPI_Alltoallv: whether counts fit an int would have to be decided alike on all ranks, which would take a message more.
  void all_to_all(const void* in, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* out, std::span<const std::int64_t> recv_counts,
                  std::span<const std::int64_t> recv_offsets, Dtype dtype) override {
    for (const auto list : {send_counts, send_offsets, recv_counts, recv_offsets}) checked(list, "all_to_all");
    const auto self = static_cast<std::size_t>(rank_);
    if (send_counts[self] != recv_counts[self]) throw Error(Error::Kind::internal, "all_to_all: rank " + std::to_string(rank_) + " sends itself another count than it receives");
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int peer : peers()) {
      const auto p = static_cast<std::size_t>(peer);
      outgoing.push_back({at(in, send_offsets[p], dtype), send_counts[p], peer});
      incoming.push_back({at(out, recv_offsets[p], dtype), recv_counts[p], peer});
    }
    auto exchange = start_exchange(outgoing, incoming, dtype);
    copy(at(in, send_offsets[self], dtype), at(out, recv_offsets[self], dtype), recv_counts[self], dtype);
    exchange->wait();
  }

  void library_all_to_all(const void* in, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* out, std::span<const std::int64_t> recv_counts,
                          std::span<const std::int64_t> recv_offsets, Dtype dtype) override {
    bool fits = true;
    for (const auto list : {send_counts, send_offsets, recv_counts, recv_offsets})
      for (const std::int64_t value : checked(list, "all_to_all")) fits &= value <= limit_;
    std::int64_t here = fits ? 1 : 0, everywhere = 0;
    check(MPI_Allreduce(&here, &everywhere, 1, MPI_INT64_T, MPI_MIN, comm_), "MPI_Allreduce");
    if (everywhere == 0) {
      all_to_all(in, send_counts, send_offsets, out, recv_counts, recv_offsets, dtype);
      return;
    }
    const auto ints = [](std::span<const std::int64_t> list) { return std::vector<int>(list.begin(), list.end()); };
    check(MPI_Alltoallv(in, ints(send_counts).data(), ints(send_offsets).data(), moved_as(dtype), out, ints(recv_counts).data(), ints(recv_offsets).data(), moved_as(dtype), comm_), "MPI_Alltoallv");
  }

  void broadcast(void* data, std::int64_t count, Dtype dtype, int root) override {
    for_chunks(count, [&](std::int64_t first, int n) { check(MPI_Bcast(at(data, first, dtype), n, moved_as(dtype), root, comm_), "MPI_Bcast"); });
  }

  void send(const void* data, std::int64_t count, Dtype dtype, int to) override {
    for_chunks(count, [&](std::int64_t first, int n) { check(MPI_Send(at(data, first, dtype), n, moved_as(dtype), to, direct_tag, comm_), "MPI_Send"); });
  }

  void receive(void* data, std::int64_t count, Dtype dtype, int from) override {
    for_chunks(count, [&](std::int64_t first, int n) {
      MPI_Status status;
      check(MPI_Recv(at(data, first, dtype), n, moved_as(dtype), from, direct_tag, comm_, &status), "MPI_Recv");
      int arrived = 0;
      check(MPI_Get_count(&status, moved_as(dtype), &arrived), "MPI_Get_count");
      if (arrived != n) throw Error(Error::Kind::mpi, "receive: " + std::to_string(arrived) + " elements came from rank " + std::to_string(from) + " where " + std::to_string(n) + " were due");
    });
  }

  std::unique_ptr<Exchange> start_exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming, Dtype dtype) override {
    std::vector<MPI_Request> requests;
    requests.reserve(outgoing.size() + incoming.size());
    for (const Incoming& message : incoming)  // first, so that data finds its place as it comes
      for_pieces(message.count, dtype, message.from, [&](std::int64_t first, int n) {
        check(MPI_Irecv(at(message.data, first, dtype), n, moved_as(dtype), message.from, exchange_tag, comm_, &requests.emplace_back(MPI_REQUEST_NULL)), "MPI_Irecv");
      });
    for (const Outgoing& message : outgoing)
      for_pieces(message.count, dtype, message.to, [&](std::int64_t first, int n) {
        check(MPI_Isend(at(message.data, first, dtype), n, moved_as(dtype), message.to, exchange_tag, comm_, &requests.emplace_back(MPI_REQUEST_NULL)), "MPI_Isend");
      });
    return std::make_unique<MpiExchange>(std::move(requests));
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
    return part == MPI_COMM_NULL ? nullptr : std::make_unique<MpiCommunicator>(part, options_);
  }

 private:
  template <class F>
  void for_chunks(std::int64_t count, F f) const {
    for (std::int64_t first = 0; first < count; first += limit_) f(first, static_cast<int>(std::min(limit_, count - first)));
  }

  /// As both ends of a message cut it.
  template <class F>
  void for_pieces(std::int64_t count, Dtype dtype, int peer, F f) const {
    const std::int64_t most = nodes().same_node(rank_, peer) ? limit_ : std::min(limit_, std::max<std::int64_t>(options_.network_piece_bytes / size_of(dtype), 1));
    for (std::int64_t first = 0; first < count; first += most) f(first, static_cast<int>(std::min(most, count - first)));
  }

  std::span<const std::int64_t> checked(std::span<const std::int64_t> per_rank, const char* call) const {
    if (per_rank.size() != static_cast<std::size_t>(size_))
      throw Error(Error::Kind::internal, std::string(call) + ": " + std::to_string(per_rank.size()) + " counts or offsets for " + std::to_string(size_) + " ranks");
    return per_rank;
  }

  /// Empty when the total passes the chunk limit: then neither counts nor displacements may go to MPI as they are.
  std::optional<std::vector<int>> as_ints(std::span<const std::int64_t> counts) const {
    if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) > limit_) return std::nullopt;
    return std::vector<int>(counts.begin(), counts.end());
  }

  /// All other ranks, the next one first, so that not everybody starts with rank 0.
  std::vector<int> peers() const {
    std::vector<int> others;
    for (int step = 1; step < size_; ++step) others.push_back((rank_ + step) % size_);
    return others;
  }

  static void copy(const void* from, void* to, std::int64_t count, Dtype dtype) {
    if (count > 0 && from != to) std::memcpy(to, from, static_cast<std::size_t>(count * size_of(dtype)));
  }

  MPI_Comm comm_;
  MpiOptions options_;
  std::int64_t limit_;
  int rank_ = 0, size_ = 0;
  std::optional<MpiNode> node_;
};

// A number of the environment, `otherwise` where it has none.
std::int64_t from_environment(const char* name, std::int64_t otherwise, std::int64_t low, std::int64_t high) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  if (*end || value < low || value > high) throw Error(Error::Kind::bad_input, std::string(name) + "='" + text + "': a number from " + std::to_string(low) + " to " + std::to_string(high) + " is wanted");
  return value;
}

}  // namespace

MpiOptions mpi_options_from_environment() {
  MpiOptions options;
  options.chunk_limit = from_environment("FAIBENCH_CHUNK_LIMIT", options.chunk_limit, 1, INT_MAX);
  options.network_piece_bytes = from_environment("FAIBENCH_NETWORK_PIECE", options.network_piece_bytes, 1, INT_MAX);
  options.shared_memory = from_environment("FAIBENCH_SHARED_MEMORY", 1, 0, 1) == 1;
  options.peer_reads = from_environment("FAIBENCH_PEER_READS", 1, 0, 1) == 1;
  options.ranks_per_node = static_cast<int>(from_environment("FAIBENCH_RANKS_PER_NODE", 0, 0, 1 << 20));
  return options;
}

std::unique_ptr<Communicator> mpi_communicator(MPI_Comm borrowed, const MpiOptions& options) {
  if (options.chunk_limit < 1 || options.chunk_limit > INT_MAX)
    throw Error(Error::Kind::internal, "mpi_communicator: a chunk limit of " + std::to_string(options.chunk_limit) + " elements does not fit an int");
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized || finalized) throw Error(Error::Kind::mpi, "mpi_communicator: call it between MPI_Init and MPI_Finalize");
  MPI_Comm owned = MPI_COMM_NULL;
  check(MPI_Comm_dup(borrowed, &owned), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(owned, options);
}

std::unique_ptr<Communicator> mpi_world(const MpiOptions& options) { return mpi_communicator(MPI_COMM_WORLD, options); }
std::unique_ptr<Communicator> mpi_world(std::int64_t chunk_limit) { return mpi_world(MpiOptions{.chunk_limit = chunk_limit}); }

}  // namespace faibench
