// Three steps: scores in parallel, groups in one short serial pass over B scores, both outputs in parallel.
//
// The contract sums a row from t = 0 upwards in f64, and groups of nearly equal scores feel every bit of that. So a SIMD lane is a row, not a token:
// tiles of 16 tokens of as many rows as there are lanes are transposed in registers, and every lane adds in the contract's order: the scores are the
// reference's bits whatever the rewards. Tiles of zeros (padding behind all responses) are skipped.
// Outputs are two values a row chosen by the mask: the advantage and what it leaves at masked tokens (0, or NaN), streamed past the caches when they would not stay there.
// Bound to expect: 13*B*L bytes through memory, about 1.2 ns an element on one core; the transpose costs 0.2 ns and hides behind the loads.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/training/grpo_rloo_advantage/grpo_rloo_advantage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/training/grpo_rloo_advantage/cpu.cpp"
#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::grpo_rloo_advantage::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t tile_tokens = 16;  // one cache line of rewards a row

#if HWY_TARGET == HWY_SCALAR
void sum_rows(const float* const* rows, std::size_t L, double* scores) {
  *scores = 0;
  for (std::size_t t = 0; t < L; ++t) *scores += static_cast<double>(rows[0][t]);
}
#else
// Block b of the vector (128 bits) holds from[b * stride .. +3].
template <class D>
hn::Vec<D> load_blocks(D d, const float* from, std::size_t stride) {
  constexpr std::size_t blocks = hn::MaxLanes(d) / 4;
  if constexpr (blocks == 1) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, from + blocks / 2 * stride, stride), load_blocks(half, from, stride));
  }
}

// Scores of one row a lane, from rows[r][0 .. L-1].
void sum_rows(const float* const* rows, std::size_t L, double* scores) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<double> dd;
  const hn::ScalableTag<std::uint32_t> du;
  const hn::ScalableTag<std::uint64_t> dq;
  const hn::Half<decltype(d)> dh;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  alignas(64) float tile[lanes][tile_tokens];  // (rows, tokens)
  auto low = hn::Zero(dd), high = hn::Zero(dd);  // rows 0 .. lanes/2-1, the others

  const auto add = [&](hn::Vec<decltype(du)> column) {  // one token of all rows
    const auto values = hn::BitCast(d, column);
    low = hn::Add(low, hn::PromoteTo(dd, hn::LowerHalf(dh, values)));
    high = hn::Add(high, hn::PromoteTo(dd, hn::UpperHalf(dh, values)));
  };
  const auto add_tile = [&] {
    for (std::size_t t = 0; t < tile_tokens; t += 4) {
      const auto a = hn::BitCast(du, load_blocks(d, &tile[0][t], 4 * tile_tokens));  // rows 0, 4, 8, ... tokens t .. t+3
      const auto b = hn::BitCast(du, load_blocks(d, &tile[1][t], 4 * tile_tokens));  // rows 1, 5, ...
      const auto c = hn::BitCast(du, load_blocks(d, &tile[2][t], 4 * tile_tokens));
      const auto e = hn::BitCast(du, load_blocks(d, &tile[3][t], 4 * tile_tokens));
      const auto ab_01 = hn::BitCast(dq, hn::InterleaveLower(du, a, b)), ab_23 = hn::BitCast(dq, hn::InterleaveUpper(du, a, b));
      const auto ce_01 = hn::BitCast(dq, hn::InterleaveLower(du, c, e)), ce_23 = hn::BitCast(dq, hn::InterleaveUpper(du, c, e));
      add(hn::BitCast(du, hn::InterleaveLower(dq, ab_01, ce_01)));
      add(hn::BitCast(du, hn::InterleaveUpper(dq, ab_01, ce_01)));
      add(hn::BitCast(du, hn::InterleaveLower(dq, ab_23, ce_23)));
      add(hn::BitCast(du, hn::InterleaveUpper(dq, ab_23, ce_23)));
    }
  };

  std::size_t t = 0;
  for (; t + tile_tokens <= L; t += tile_tokens) {
    auto any = hn::Zero(du);
    for (std::size_t r = 0; r < lanes; ++r)
      for (std::size_t k = 0; k < tile_tokens; k += lanes) {
        const auto values = hn::LoadU(d, rows[r] + t + k);
        any = hn::Or(any, hn::BitCast(du, values));
        hn::Store(values, d, &tile[r][k]);
      }
    if (!hn::AllTrue(du, hn::Eq(hn::Add(any, any), hn::Zero(du)))) add_tile();  // doubled: the sign bit falls out
  }
  if (t < L) {
    std::memset(tile, 0, sizeof tile);
    for (std::size_t r = 0; r < lanes; ++r) std::memcpy(tile[r], rows[r] + t, (L - t) * sizeof(float));
    add_tile();
  }
  hn::StoreU(low, dd, scores);
  hn::StoreU(high, dd, scores + lanes / 2);
}
#endif

void score_rows(const float* rewards, std::int64_t B, std::size_t L, int threads, double* score) {
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t first = 0; first < B; first += lanes) {
    const float* rows[lanes];
    alignas(64) double sums[lanes];
    for (std::int64_t r = 0; r < lanes; ++r) rows[r] = rewards + static_cast<std::size_t>(std::min(first + r, B - 1)) * L;  // past the end: the last row again
    sum_rows(rows, L, sums);
    std::copy_n(sums, std::min(lanes, B - first), score + first);
  }
}

// One row of one output: `value` where the mask is set, else `hidden`.
template <bool streamed>
void write_row(const std::uint8_t* mask, std::size_t L, float value, float hidden, float* advantages, float* returns) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const hn::ScalableTag<std::uint32_t> du;
  const std::size_t lanes = hn::Lanes(d);
  const auto v_value = hn::Set(d, value), v_hidden = hn::Set(d, hidden);
  std::size_t t = 0;
  const auto one = [&] {
    advantages[t] = returns[t] = mask[t] ? value : hidden;
    ++t;
  };
  if constexpr (streamed)
    while (t < L && reinterpret_cast<std::uintptr_t>(advantages + t) % (4 * lanes) != 0) one();
  for (; t + lanes <= L; t += lanes) {
    const auto shown = hn::Ne(hn::PromoteTo(du, hn::LoadU(d8, mask + t)), hn::Zero(du));
    const auto out = hn::IfThenElse(hn::RebindMask(d, shown), v_value, v_hidden);
    if constexpr (streamed) {
      hn::Stream(out, d, advantages + t);
      hn::Stream(out, d, returns + t);
    } else {
      hn::StoreU(out, d, advantages + t);
      hn::StoreU(out, d, returns + t);
    }
  }
  while (t < L) one();
}

void write_rows(const std::uint8_t* mask, const double* advantage, std::int64_t B, std::size_t L, int threads, bool streamed, float* advantages, float* returns) {
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < B; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * L;
      const float value = static_cast<float>(advantage[i]), hidden = static_cast<float>(advantage[i] * 0.0);
      if (streamed) write_row<true>(mask + at, L, value, hidden, advantages + at, returns + at);
      else write_row<false>(mask + at, L, value, hidden, advantages + at, returns + at);
    }
    if (streamed) hwy::FlushStream();
  }
}

}  // namespace faibench::grpo_rloo_advantage::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::grpo_rloo_advantage::cpu {
namespace {

HWY_EXPORT(score_rows);
HWY_EXPORT(write_rows);

constexpr std::int64_t parallel_elements = 1 << 16;          // below, waking threads costs more than it saves
constexpr std::int64_t streamed_bytes = std::int64_t{8} << 20;  // outputs larger than this would push everything else out of the caches

// Groups numbered in order of appearance, found by open addressing.
class Groups {
 public:
  explicit Groups(std::size_t rows) {
    std::size_t slots = 16;
    while (slots < 2 * rows) slots *= 2;
    mask_ = slots - 1;
    slot_.assign(slots, Slot{0, -1});
  }
  std::int32_t number_of(std::int64_t index) {
    std::size_t at = hash(index) & mask_;
    while (slot_[at].number >= 0 && slot_[at].index != index) at = (at + 1) & mask_;
    if (slot_[at].number < 0) slot_[at] = {index, count_++};
    return slot_[at].number;
  }
  [[nodiscard]] std::int32_t count() const { return count_; }

 private:
  struct Slot {
    std::int64_t index;
    std::int32_t number;
  };
  static std::size_t hash(std::int64_t index) {
    std::uint64_t h = static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93u;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
  std::vector<Slot> slot_;
  std::size_t mask_ = 0;
  std::int32_t count_ = 0;
};

struct Moments {
  double first = 0;  // score
  double sum = 0;    // then the mean
  double squares = 0;
  std::int64_t n = 0;
  bool equal = true;
};

// Scores become advantages. Sums run over the rows of a group in ascending order.
void compare_within_groups(View<const std::int64_t, 1> index, bool grpo, double epsilon, bool norm_by_std, std::vector<double>& score) {
  const std::size_t rows = score.size();
  Groups groups(rows);
  std::vector<std::int32_t> group_of(rows);
  std::vector<Moments> moments;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int32_t g = group_of[i] = groups.number_of(index[static_cast<std::int64_t>(i)]);
    if (static_cast<std::size_t>(groups.count()) > moments.size()) moments.push_back({score[i], 0, 0, 0, std::isfinite(score[i])});
    Moments& m = moments[static_cast<std::size_t>(g)];
    m.sum += score[i];
    m.equal = m.equal && score[i] == m.first;
    ++m.n;
  }
  for (Moments& m : moments) m.sum = m.equal ? m.first : m.sum / static_cast<double>(m.n);
  for (std::size_t i = 0; i < rows; ++i) {
    Moments& m = moments[static_cast<std::size_t>(group_of[i])];
    const double deviation = score[i] - m.sum;
    m.squares += deviation * deviation;
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const Moments& m = moments[static_cast<std::size_t>(group_of[i])];
    const double n = static_cast<double>(m.n), centred = m.n == 1 ? score[i] : score[i] - m.sum;
    if (!grpo) score[i] = m.n == 1 ? centred : centred * n / (n - 1);
    else if (!norm_by_std) score[i] = centred;
    else score[i] = centred / ((m.n == 1 ? 1 : std::sqrt(m.squares / (n - 1))) + epsilon);
  }
}

}  // namespace

void estimate(View<const float, 2> token_level_rewards, View<const Bool8, 2> response_mask, View<const std::int64_t, 1> index, std::string_view estimator, double epsilon, bool norm_by_std,
              View<float, 2> advantages, View<float, 2> returns) {
  const std::int64_t B = token_level_rewards.extent(0), L = token_level_rewards.extent(1);
  if (B == 0 || L == 0) return;
  const int threads = B * L < parallel_elements ? 1 : omp_get_max_threads();
  const std::size_t row = static_cast<std::size_t>(L);
  std::vector<double> score(static_cast<std::size_t>(B));
  HWY_DYNAMIC_DISPATCH(score_rows)(token_level_rewards.data(), B, row, threads, score.data());
  compare_within_groups(index, estimator == "grpo", epsilon, norm_by_std, score);
  const std::uintptr_t apart = reinterpret_cast<std::uintptr_t>(advantages.data()) - reinterpret_cast<std::uintptr_t>(returns.data());
  const bool streamed = 8 * B * L >= streamed_bytes && apart % 64 == 0;  // whole vectors of both must be aligned at once
  HWY_DYNAMIC_DISPATCH(write_rows)(reinterpret_cast<const std::uint8_t*>(response_mask.data()), score.data(), B, row, threads, streamed, advantages.data(), returns.data());
}

}  // namespace faibench::grpo_rloo_advantage::cpu
#endif
