// N + Q hashed look-ups instead of N*Q comparisons, and little memory touched for each:
//  - Names are hashed 64 bytes a step (AVX-512, masked loads: no branch on the length, no byte beyond the name), eight names summed at once (index.cpp).
//  - The table is open addressing over slots of 8 bytes, 32 bits of hash and 32 of number: a slot is what hashing wrote. Declarations are inserted in
//    order, a later one over an equal earlier one. Bytes are compared wherever 32 bits of hash agree, so the answer never rests on the hash.
//  - Look-ups go in batches of 32 through four stages (hash, probe, fetch the name, compare), each prefetching what the next one reads.
//  - Two threads: chunks of names are hashed, halves of the table (by the top bit of the hash) filled, chunks of queries answered by whoever is free.
//  - "__metadata__" is looked for while hashing: the length is at hand there, a pass of its own would read all offsets again.
// Bound: B + C bytes and the offsets read once, 12 Q written: 5.5 MB at the standard size, 0.2 to 0.3 ms from L3 on one core.
//
// Measured on a Zen 4 core whose other work could not be kept away (best of many, ns a name, all in L2): hashing 3.1, inserting 1.7, looking up 7.2 with its
// hashing. At the standard size names and table come from L3: inserting 4.1, looking up 15.
//
// Tried, and lost:
//  - Hashing one name at a time: 4.1 ns against 3.1, most of it the sum over lanes.
//  - A table at most 0.63 full instead of 0.31 (512 KB instead of 1 MB): clearing is 20 us cheaper, inserting and looking up 2 to 3 ns a name dearer.
//  - Checking for "__metadata__" in the runner: another pass over the offsets (0.9 ns a name for the three offset checks already there).
// Not done: indexing the queries where they are far fewer than the declarations. Every declaration must still be hashed, which is the larger part.
#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <omp.h>

#include "kernels/serving/safetensors_shard_route/index.h"
#include "kernels/serving/safetensors_shard_route/safetensors_shard_route.h"
#include "tensor/error.h"

namespace faibench::safetensors_shard_route::cpu {
namespace {

constexpr std::int64_t chunk = 1024;            // names a thread takes at a time
constexpr std::int64_t shared_names = 1 << 13;  // below this a second thread costs more than it saves

/// Work in pieces that any thread may take. `finish` returns when all pieces are done, whoever did them: a thread that wakes up late holds nobody up.
class Pieces {
 public:
  explicit Pieces(std::int64_t count) : count_(count) {}
  template <class Work>
  void finish(const Work& work) {
    for (std::int64_t i; (i = taken_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      work(i);
      done_.fetch_add(1, std::memory_order_release);
    }
    while (done_.load(std::memory_order_acquire) < count_) std::this_thread::yield();
  }

 private:
  const std::int64_t count_;
  std::atomic<std::int64_t> taken_ = 0, done_ = 0;
};

std::int64_t chunks_of(std::int64_t count) { return (count + chunk - 1) / chunk; }

}  // namespace

Rejected resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                              View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry) {
  const std::int64_t N = name_offsets.extent(0) - 1, Q = query_offsets.extent(0) - 1, F = file_offsets.extent(0) - 1;
  if (N > std::numeric_limits<std::int32_t>::max()) throw Error(Error::Kind::internal, "safetensors_shard_route: the cpu variant takes fewer than 2^31 names, there are " + std::to_string(N));
  const NameList declared{names.data(), name_offsets.data()}, wanted{queries.data(), query_offsets.data()};

  // Two to four slots a name; each half has more slots than there are names, so a probe always ends at an empty one.
  const std::uint32_t bits = static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(N, 1)))) + 1;
  const std::size_t slot_count = std::size_t{1} << bits;
  const auto slots = std::make_unique_for_overwrite<Slot[]>(slot_count);
  const Table table{slots.get(), 32 - bits, static_cast<std::uint32_t>(slot_count / 2 - 1)};
  const auto hashed = std::make_unique_for_overwrite<Slot[]>(static_cast<std::size_t>(2 * chunks_of(N) * chunk));
  const auto owner = std::make_unique_for_overwrite<std::int32_t[]>(static_cast<std::size_t>(N + 1));
  std::vector<std::int64_t> lows(static_cast<std::size_t>(chunks_of(N)));
  std::atomic<std::int64_t> reserved = N;

  const auto hash_chunk = [&](std::int64_t c) {
    Slot* const low = hashed.get() + 2 * c * chunk;
    const std::int64_t result = hash_names(declared, c * chunk, std::min(chunk, N - c * chunk), low, low + chunk);
    lows[static_cast<std::size_t>(c)] = result;
    if (result < 0)
      for (std::int64_t seen = reserved; -1 - result < seen && !reserved.compare_exchange_weak(seen, -1 - result);) {}
  };
  constexpr std::int64_t clearings = 8;
  const auto clear = [&](std::int64_t part) {  // the last piece fills in the owners
    const std::size_t size = slot_count / 4 < clearings ? 0 : slot_count / clearings;
    if (part < clearings) {
      const std::size_t begin = static_cast<std::size_t>(part) * size;
      std::fill(slots.get() + begin, slots.get() + (part == clearings - 1 ? slot_count : begin + size), Slot{0});
      return;
    }
    for (std::int64_t f = 0; f < F; ++f) std::fill(owner.get() + file_offsets[f], owner.get() + file_offsets[f + 1], static_cast<std::int32_t>(f));
  };
  const auto insert_half = [&](std::int64_t half) {
    for (std::int64_t c = 0; c < chunks_of(N); ++c) {
      const std::int64_t low = lows[static_cast<std::size_t>(c)], count = std::min(chunk, N - c * chunk);
      insert(table, declared, hashed.get() + (2 * c + half) * chunk, half == 0 ? low : count - low);
    }
  };
  const auto look_up_chunk = [&](std::int64_t c) { look_up(table, declared, owner.get(), wanted, c * chunk, std::min(chunk, Q - c * chunk), file.data(), entry.data()); };

  Pieces prepare(clearings + 1), hash(chunks_of(N)), fill(2), answer(chunks_of(Q));
#pragma omp parallel num_threads(2) if (N + Q >= shared_names && omp_get_max_threads() > 1)
  {
    hash.finish(hash_chunk);
    prepare.finish(clear);
    if (reserved == N) {
      fill.finish(insert_half);
      answer.finish(look_up_chunk);
    }
  }
  if (reserved < N) return reject("reserved_name", "names", name_offsets[reserved], "__metadata__", "declared as name " + std::to_string(reserved) + ", but it is the key of a header's metadata");
  return std::nullopt;
}

}  // namespace faibench::safetensors_shard_route::cpu
