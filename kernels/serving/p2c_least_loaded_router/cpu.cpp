// The batch is one chain of decisions, each of which may need the load that the one before it changed. What can be had:
//  - No branch: the outcome is a coin toss, so the plain `if` is mispredicted in every second request (20 cycles each).
//  - No store that loads must wait for. Two forms, picked block by block. write_picked stores one load and relies on the processor's guess that later
//    loads do not need it: right where a replica seldom comes back within ~30 requests. write_both stores both candidates' loads, at addresses known
//    long before the decision, and so never guesses: twice as fast where replicas come back often.
//  - 32-bit differences from the smallest load, where they cannot wrap within the batch: half the cache lines. Else 64 bits.
//  - At most 64 replicas, hot ones among them (passes.cpp): once the loads lie further apart than an epoch of requests can move them, most decisions
//    follow from the order of the loads at the epoch's start: table look-ups in vectors, 64 requests at once. Only requests whose candidates
//    lie near each other are decided one by one, with exact counts of what the vector decided before them.
//  - Validation reads 8*N bytes once more at vector speed. With a second thread it costs nothing: that thread validates from the end while this one
//    decides (validating its own blocks while they are in L1) and keeps choices as bits; where they meet everything is known to be valid, outputs
//    may be written, and the second thread turns the bits into picks.
// Bound: 8*N bytes read once or twice + 4*N written, 0.6 to 0.9 ns a request on one core at 25 GB/s; about 8 operations a request for write_picked.
//
// Measured on a Zen 4 core whose other work could not be kept away (best of many, ns a request, in cache): R = 4096, uniform: branch 3.9, write_picked
// 0.78, write_both 1.0. R = 64, Zipf(1.1): branch 4.6, write_picked 2.9 to 4.9, write_both 1.3 to 1.7, by position 1.0 to 1.1, of which 0.3 in vectors, 0.45 for
// counting the picks and 0.3 for the open lanes. Validation 0.07 in cache.
//
// Tried, and lost:
//  - Selections in portable C++: GCC 12 makes a branch of each (`?:`, a shift by 32*bit, __builtin_expect_with_probability with 0.5), or 5 more
//    operations with masks (1.15 to 1.35 at R = 4096).
//  - 16-bit loads (0.84 against 0.87 with 32 bits at R = 4096): not worth a third width.
//  - Unrolling by 8, two picks a store, both candidates in one 64-bit load: within the noise of each other.
//  - Loading four requests' loads before the first decision, even without repairing conflicts (wrong): 0.85 at R = 4096, so no block form can gain there;
//    a gather of 16 loads costs more than 16 loads.
//  - A branch on each decision of an open lane: as slow as the whole rest of the vector form.
//  - Picks made in L1, then written past the caches: 1.8 ns a request against 1.7, from memory, validation included.
// Not tried: starting a second thread in the middle from level loads. Two runs of the same requests whose loads have the same sum drift together, and from the
// moment they agree so do all decisions; but that takes some R^2 requests, more than the batch at R = 4096.
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <omp.h>

#include "kernels/serving/p2c_least_loaded_router/choose.h"
#include "kernels/serving/p2c_least_loaded_router/p2c_least_loaded_router.h"
#include "kernels/serving/p2c_least_loaded_router/passes.h"

namespace faibench::p2c_least_loaded_router::cpu {
namespace {

constexpr std::int64_t block = hot_epoch;             // requests decided at a time: 16 KB of candidates and 8 KB of picks
constexpr std::int64_t helper_block = 16 * block;     // validated or written at a time by the second thread
constexpr std::int64_t shared_requests = 1 << 16;     // below this a second thread costs more than it saves

Rejected first_bad_load(View<const std::int64_t, 1> loads) {
  for (std::int64_t r = 0; r < loads.extent(0); ++r)
    if (loads[r] < 0 || loads[r] > std::int64_t{1} << 62) return reject("bad_load", "initial_loads", r, std::to_string(loads[r]), "loads go from 0 to 2^62");
  return std::nullopt;
}

Rejected first_bad_candidate(View<const std::int32_t, 2> candidates, std::int32_t num_replicas) {
  const auto values = candidates.flat();
  const auto bad = std::ranges::find_if(values, [&](std::int32_t c) { return c < 0 || c >= num_replicas; });
  return reject("bad_candidate", "candidates", bad - values.begin(), std::to_string(*bad), "replicas go from 0 to " + std::to_string(num_replicas - 1));
}

/// The loads of a batch in progress, relative to `base`, and the three ways to decide a block of requests.
template <class Load>
class Router {
 public:
  Router(View<const std::int64_t, 1> initial_loads, std::int64_t base) : base_(base), replicas_(initial_loads.extent(0)), load_(static_cast<std::size_t>(std::max(replicas_, hot_replicas) + 1)) {
    for (std::int64_t r = 0; r < replicas_; ++r) load_[static_cast<std::size_t>(r)] = static_cast<Load>(initial_loads[r] - base);
    order_.resize(static_cast<std::size_t>(std::min(replicas_, hot_replicas)));
    std::iota(order_.begin(), order_.end(), std::uint8_t{0});
  }
  void decide(const std::int32_t* candidates, std::int64_t count, std::int32_t* picks) {
    if constexpr (sizeof(Load) == 4) {
      if (replicas_ <= hot_replicas) {
        const std::int64_t whole = count / 64 * 64;
        if (whole > 0 && decide_hot(candidates, whole, order_.data(), replicas_, load_.data(), picks)) {
          candidates += 2 * whole;
          picks += whole;
          count -= whole;
        }
      }
    }
    if (crowded(candidates, count))
      write_both(candidates, count, picks);
    else
      write_picked(candidates, count, picks);
  }
  void store(View<std::int64_t, 1> loads) const {
    for (std::int64_t r = 0; r < replicas_; ++r) loads[r] = base_ + static_cast<std::int64_t>(load_[static_cast<std::size_t>(r)]);
  }

 private:
  // Both loads are written back: the addresses of the stores are known long before the decision, so loads behind them need not wait.
  void write_both(const std::int32_t* candidates, std::int64_t count, std::int32_t* picks) {
    Load* const load = load_.data();
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t a = static_cast<std::uint32_t>(candidates[2 * i]), b = static_cast<std::uint32_t>(candidates[2 * i + 1]);
      const Load load_a = load[a], load_b = load[b];
      const Choice<Load> choice = choose(a, b, load_a, load_b);
      load[b] = load_b - choice.minus_second;
      load[a] = load_a + 1 + choice.minus_second;  // after b's: right for a == b, too
      picks[i] = static_cast<std::int32_t>(choice.pick);
    }
  }
  // Only the pick's load is written: a third less work, but a load that meets one of the last stores costs a pipeline flush.
  void write_picked(const std::int32_t* candidates, std::int64_t count, std::int32_t* picks) {
    Load* const load = load_.data();
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t a = static_cast<std::uint32_t>(candidates[2 * i]), b = static_cast<std::uint32_t>(candidates[2 * i + 1]);
      const std::uint64_t pick = less_loaded(a, b, load[a], load[b]);
      picks[i] = static_cast<std::int32_t>(pick);
      load[pick] += 1;
    }
  }
  /// Do neighbouring requests share replicas so often that write_picked would stumble over its own stores?
  static bool crowded(const std::int32_t* candidates, std::int64_t count) {
    int shared = 0;
    for (std::int64_t i = 0; i + 1 < std::min<std::int64_t>(count, 65); ++i) {
      const std::int32_t a = candidates[2 * i], b = candidates[2 * i + 1], c = candidates[2 * i + 2], d = candidates[2 * i + 3];
      shared += (a == c) | (a == d) | (b == c) | (b == d);
    }
    return shared >= 2;
  }

  std::int64_t base_;
  std::int64_t replicas_;
  std::vector<Load> load_;
  std::vector<std::uint8_t> order_;
};

template <class Load>
Rejected route_alone(Router<Load>& router, std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<std::int32_t, 1> assignment) {
  const std::int64_t N = candidates.extent(0);
  if (!all_valid(candidates.data(), 2 * N, num_replicas)) return first_bad_candidate(candidates, num_replicas);
  for (std::int64_t at = 0; at < N; at += block) router.decide(candidates.data() + 2 * at, std::min(block, N - at), assignment.data() + at);
  return std::nullopt;
}

// Two threads: one decides from the start and keeps its choices as bits, the other validates from the end. Where they meet the whole input is known
// to be valid: from there on the first writes its picks, while the second turns the bits before it into picks.
template <class Load>
Rejected route_shared(Router<Load>& router, std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<std::int32_t, 1> assignment) {
  const std::int64_t N = candidates.extent(0);
  const std::int32_t* const c = candidates.data();
  const auto choices = std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(N / 8 + 1));
  std::atomic<bool> bad = false;
  std::atomic<std::int64_t> decided = 0, valid_from = N, meeting = -1, unpacked = 0;
  const auto unpack = [&](std::int64_t end) {
    for (std::int64_t at; (at = unpacked.fetch_add(helper_block)) < end;) unpack_choices(c + 2 * at, choices.get() + at / 8, std::min(helper_block, end - at), assignment.data() + at);
  };
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num() == 0) {
    std::int32_t picks[block];
    std::int64_t at = 0;
    for (; at < valid_from.load(std::memory_order_acquire) && !bad; at += block) {
      const std::int64_t count = std::min(block, N - at);
      if (!all_valid(c + 2 * at, 2 * count, num_replicas)) {
        bad = true;
        break;
      }
      router.decide(c + 2 * at, count, picks);
      pack_choices(c + 2 * at, picks, count, choices.get() + at / 8);
      decided.store(at + count, std::memory_order_release);
    }
    if (!bad) {
      meeting.store(std::min(at, N), std::memory_order_release);
      for (; at < N; at += block) router.decide(c + 2 * at, std::min(block, N - at), assignment.data() + at);
      unpack(meeting);
    }
  } else {
    for (std::int64_t to = N; to > decided.load(std::memory_order_relaxed) && !bad; ) {
      const std::int64_t from = std::max<std::int64_t>(to - helper_block, 0);
      if (!all_valid(c + 2 * from, 2 * (to - from), num_replicas)) bad = true;
      else valid_from.store(from, std::memory_order_release);
      to = from;
    }
    while (meeting.load(std::memory_order_acquire) < 0 && !bad) std::this_thread::yield();  // for as long as the first thread takes for a block
    if (!bad) unpack(meeting);
  }
  if (bad) return first_bad_candidate(candidates, num_replicas);
  return std::nullopt;
}

template <class Load>
Rejected route(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, std::int64_t base, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads) {
  Router<Load> router(initial_loads, base);
  const bool shared = candidates.extent(0) >= shared_requests && omp_get_max_threads() > 1;
  if (Rejected rejected = shared ? route_shared(router, num_replicas, candidates, assignment) : route_alone(router, num_replicas, candidates, assignment)) return rejected;
  router.store(loads);
  return std::nullopt;
}

}  // namespace

Rejected route_p2c(std::int32_t num_replicas, View<const std::int32_t, 2> candidates, View<const std::int64_t, 1> initial_loads, View<std::int32_t, 1> assignment, View<std::int64_t, 1> loads) {
  if (Rejected rejected = first_bad_load(initial_loads)) return rejected;
  const auto [least, most] = std::ranges::minmax(initial_loads.flat());
  if (most - least + candidates.extent(0) < std::int64_t{1} << 32) return route<std::uint32_t>(num_replicas, candidates, initial_loads, least, assignment, loads);
  return route<std::uint64_t>(num_replicas, candidates, initial_loads, 0, assignment, loads);
}

}  // namespace faibench::p2c_least_loaded_router::cpu
