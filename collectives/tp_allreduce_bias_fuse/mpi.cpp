// Direct reduce-scatter and all-gather of the elements as they are. The flat range of L = M*N elements is cut into P pieces, piece q is rank q's to finish:
//
//   rank 0   x0: [a0|b0|c0]    b0 -> 1, c0 -> 2        out[a] = a0+a1+a2+bias -> 1, 2
//   rank 1   x1: [a1|b1|c1]    a1 -> 0, c1 -> 2        out[b] = b0+b1+b2+bias -> 0, 2
//   rank 2   x2: [a2|b2|c2]    a2 -> 0, b2 -> 1        out[c] = c0+c1+c2+bias -> 0, 1
//
// Each element is added once, in ascending rank, by ordered_sum(): the bits are those of the one-process form for every P, size and chunk.
// Bytes sent by a rank: 2*(P-1)/P*L*s; an f32 all-reduce of 16-bit partials sends twice that. A piece travels in chunks: while chunk k is added, chunk k+1 is on its way
// here and chunk k-1 on its way to the others; a chunk of all ranks is added while it is still in the caches. Below 64 KiB latency is all that counts: every rank sends its
// whole partial to all others and adds everything itself.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/tp_allreduce_bias_fuse/ordered_sum.h"
#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"
#include "communicator/communicator.h"

namespace faibench::tp_allreduce_bias_fuse {
namespace {

constexpr std::int64_t one_shot_bytes = 64 << 10;
constexpr std::int64_t chunk_bytes = 1 << 20;

/// Four independent multiply chains: 16 KiB of bias cost less than a message.
std::int64_t hash_bytes(const std::byte* data, std::size_t count) {
  std::uint64_t lanes[4] = {count, 0x9E3779B97F4A7C15u, 0xD1342543DE82EF95u, 0xCA5A826395121157u};
  const auto absorb = [&](const std::byte* block) {
    for (std::size_t k = 0; k < 4; ++k) {
      std::uint64_t word;
      std::memcpy(&word, block + 8 * k, 8);
      lanes[k] = (lanes[k] ^ word) * 0xd6e8feb86659fd93u;
      lanes[k] ^= lanes[k] >> 32;
    }
  };
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) absorb(data + i);
  if (i < count) {
    std::byte last[32] = {};
    std::memcpy(last, data + i, count - i);
    absorb(last);
  }
  std::uint64_t h = 0;
  for (std::uint64_t lane : lanes) h = ((h ^ lane) * 0xd6e8feb86659fd93u) ^ (h >> 29);
  return static_cast<std::int64_t>(h >> 1);  // so that it can be negated
}

/// One small reduction: the maximum of each value and of its negative differ from one rank's own exactly where the ranks differ. All come to the same answer.
Rejected compare_ranks(Communicator& communicator, const TensorRef& partial, const TensorRef& bias) {
  std::int64_t values[8] = {partial.shape[0], partial.shape[1], static_cast<std::int64_t>(partial.dtype), hash_bytes(bias.data, static_cast<std::size_t>(bias.bytes()))};
  for (int k = 0; k < 4; ++k) values[4 + k] = -values[k];
  communicator.all_reduce(values, values, 8, Dtype::i64, Reduce::max);
  const auto differs = [&](int k) { return values[k] != -values[4 + k]; };
  const auto range = [&](int k) { return "from " + std::to_string(-values[4 + k]) + " to " + std::to_string(values[k]); };
  if (differs(0)) return reject("rank_mismatch", "partial", -1, range(0) + " tokens", "M differs between ranks");
  if (differs(1)) return reject("rank_mismatch", "partial", -1, range(1) + " features", "N differs between ranks");
  if (differs(2)) return reject("rank_mismatch", "partial", -1, std::string(name_of(partial.dtype)) + " on rank " + std::to_string(communicator.rank()), "dtype differs between ranks");
  if (differs(3)) return reject("rank_mismatch", "bias", -1, "not the same on all ranks", "the bytes of bias differ between ranks");
  return std::nullopt;
}

/// Elements that nobody has set yet.
template <class T>
std::unique_ptr<T[]> room_for(std::int64_t count) { return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count)); }

template <class T>
class Exchanger {
 public:
  Exchanger(Communicator& communicator, View<const T, 2> partial, View<const T, 1> bias, View<T, 2> out)
      : communicator_(communicator), x_(partial.data()), N_(partial.extent(1)), L_(partial.size()), bias_(wrapped_bias(bias.data(), N_)), out_(out.data()) {}

  /// Every rank sends all to all.
  void one_shot() {
    const auto received = room_for<T>(L_ * ranks_);
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    std::vector<const T*> streams(static_cast<std::size_t>(ranks_), x_);
    for (int step = 1; step < ranks_; ++step) {
      const int peer = (rank_ + step) % ranks_;
      streams[static_cast<std::size_t>(peer)] = received.get() + peer * L_;
      outgoing.push_back({x_, L_, peer});
      incoming.push_back({received.get() + peer * L_, L_, peer});
    }
    communicator_.start_exchange(outgoing, incoming, dtype_of<T>)->wait();
    ordered_sum<T>(streams, bias_, N_, 0, L_, out_, Store::cached);
  }

  void pipelined() {
    const std::int64_t chunks = (length(0) + chunk_ - 1) / chunk_;  // piece 0 is the longest
    const std::int64_t slot = std::min(chunk_, length(rank_)) * ranks_;
    staging_ = room_for<T>(2 * slot);
    T* const slots[2] = {staging_.get(), staging_.get() + slot};
    std::vector<std::unique_ptr<Exchange>> gathering;
    auto scattering = scatter(0, slots[0]);
    for (std::int64_t k = 0; k < chunks; ++k) {
      auto next = k + 1 < chunks ? scatter(k + 1, slots[(k + 1) % 2]) : nullptr;
      scattering->wait();
      add(k, slots[k % 2]);
      gathering.push_back(gather(k));
      scattering = std::move(next);
    }
    for (auto& exchange : gathering) exchange->wait();
  }

  void run() {
    if (L_ == 0) return;
    if (ranks_ == 1) {
      const T* const own[] = {x_};
      ordered_sum<T>(own, bias_, N_, 0, L_, out_, Store::cached);
    } else if (L_ * static_cast<std::int64_t>(sizeof(T)) < one_shot_bytes) {
      one_shot();
    } else {
      pipelined();
    }
  }

 private:
  // The first L mod P pieces are one element longer; a piece may be empty.
  std::int64_t start(int q) const { return L_ / ranks_ * q + std::min<std::int64_t>(q, L_ % ranks_); }
  std::int64_t length(int q) const { return L_ / ranks_ + (q < L_ % ranks_ ? 1 : 0); }
  /// Chunk k of piece q: where it starts in the whole, and its elements (0 past the piece's end).
  std::int64_t chunk_start(int q, std::int64_t k) const { return start(q) + std::min(k * chunk_, length(q)); }
  std::int64_t chunk_length(int q, std::int64_t k) const { return std::clamp<std::int64_t>(length(q) - k * chunk_, 0, chunk_); }

  /// Chunk k of every piece goes to the piece's owner; those of this rank's piece come into `slot`, one after another in rank order.
  std::unique_ptr<Exchange> scatter(std::int64_t k, T* slot) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    const std::int64_t own = chunk_length(rank_, k);
    for (int step = 1; step < ranks_; ++step) {
      const int to = (rank_ + step) % ranks_, from = (rank_ + ranks_ - step) % ranks_;
      outgoing.push_back({x_ + chunk_start(to, k), chunk_length(to, k), to});
      incoming.push_back({slot + from * own, own, from});
    }
    return communicator_.start_exchange(outgoing, incoming, dtype_of<T>);
  }

  void add(std::int64_t k, const T* slot) {
    const std::int64_t first = chunk_start(rank_, k), own = chunk_length(rank_, k);
    if (own == 0) return;
    std::vector<const T*> streams;
    for (int p = 0; p < ranks_; ++p) streams.push_back(p == rank_ ? x_ + first : slot + p * own);
    ordered_sum<T>(streams, bias_, N_, first, own, out_ + first, Store::cached);
  }

  /// The finished chunk k of every piece comes to its place in `out`.
  std::unique_ptr<Exchange> gather(std::int64_t k) {
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int step = 1; step < ranks_; ++step) {
      const int to = (rank_ + step) % ranks_, from = (rank_ + ranks_ - step) % ranks_;
      outgoing.push_back({out_ + chunk_start(rank_, k), chunk_length(rank_, k), to});
      incoming.push_back({out_ + chunk_start(from, k), chunk_length(from, k), from});
    }
    return communicator_.start_exchange(outgoing, incoming, dtype_of<T>);
  }

  Communicator& communicator_;
  const int rank_ = communicator_.rank(), ranks_ = communicator_.size();
  const T* x_;
  std::int64_t N_, L_;
  std::vector<T> bias_;
  T* out_;
  std::int64_t chunk_ = chunk_bytes / static_cast<std::int64_t>(sizeof(T));
  std::unique_ptr<T[]> staging_;  // outlives the exchanges that write into it: they are waited for in the functions that start them
};

template <class T>
void run(MultiRank::Call& call) {
  const auto partial = call.arguments.inputs.at("partial").view<const T, 2>();
  if (partial.empty()) return;
  Exchanger<T>(call.communicator, partial, call.arguments.inputs.at("bias").view<const T, 1>(), call.arguments.outputs.at("out").view<T, 2>()).run();
}

}  // namespace

Rejected run_mpi(MultiRank::Call& call) {
  const TensorRef& partial = call.arguments.inputs.at("partial");
  if (call.communicator.size() > 1)
    if (auto rejection = compare_ranks(call.communicator, partial, call.arguments.inputs.at("bias"))) return rejection;
  switch (partial.dtype) {
    case Dtype::f16: run<f16>(call); break;
    case Dtype::bf16: run<bf16>(call); break;
    default: run<float>(call); break;
  }
  return std::nullopt;
}

}  // namespace faibench::tp_allreduce_bias_fuse
