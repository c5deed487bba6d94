// Kernels of wire format 130: segments of 2^16 elements, each chosen from and coded like a bucket of its own in format 128 (sparse.cpp says what its payload is made of).
//  - weigh    finite? and the blocks' mean |grad|, from which their levels come
//  - pick     of each segment the k largest |c| in units of their block's weight: three rounds of a histogram of the keys' next bits, then positions in order by votes
//  - encode   a thread a segment walks through its picks; segments run side by side
//  - keep     update = 0, new_error = c
//  - send     the segments' payloads behind each other, and the picked elements' values
//  - mean     with the peers
#pragma once
#include "collectives/grad_signsgd_error_feedback/bucket_kernels.h"

namespace faibench::grad_signsgd_error_feedback::on_device::sparse {

constexpr int segment = 1 << 16, segment_blocks = segment / block;
constexpr double density = 0.0031;
constexpr int picks_stride = 256;        // 203 are picked of a segment
constexpr int payload_stride = 8 << 10;  // at most 17 bytes a pick: 24 bits of position, 110 of a class that no other has, 1 of sign
constexpr int codes = 1 << 12, code_of_one = 2385, levels = 8, most_classes = 255;
constexpr int pick_threads = 1024, pick_warps = pick_threads / 32, rounds = segment / pick_threads;
constexpr int bins = 2048;

/// Cumulative shares of 2^16 of the binomial distribution, one row after another: row k has k + 2 of them.
constexpr int binomial_most = 128;
__host__ __device__ constexpr int row_start(int k) { return k * (k + 3) / 2; }
struct Binomial {
  std::uint32_t starts[row_start(binomial_most + 1)] = {};
  constexpr Binomial() {
    double row[binomial_most + 2] = {1.0};
    for (int k = 0; k <= binomial_most; ++k) {
      std::uint32_t* const start = starts + row_start(k);
      std::uint32_t sum = 0;
      const auto spare = static_cast<double>((1 << 16) - (k + 1));
      for (int j = 0; j <= k; ++j) {
        sum += 1 + static_cast<std::uint32_t>(row[j] * spare);
        start[j + 1] = sum;
      }
      for (int j = k / 2 + 1; j <= k + 1; ++j) start[j] += (1 << 16) - sum;
      for (int j = k + 1; j > 0; --j) row[j] = row[j - 1] / 2 + row[j] / 2;
      row[0] /= 2;
    }
  }
};
__device__ constexpr Binomial binomial;

/// 2^(sixteenths/16), as powers.h has it.
__device__ constexpr double steps[16] = {0x1.0p+0,           0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0, 0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0,
                                         0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0, 0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
                                         0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0};
__device__ inline double power(int sixteenths) { return ldexp(steps[sixteenths & 15], sixteenths >> 4); }
__device__ inline double threshold_of(int code) { return power(code - code_of_one); }
__device__ inline double weight_of(int level) { return power(-4 * level); }

/// What `pick` found in a segment. A pick: position, sign in bit 16, class above.
struct Segment {
  int count, code;
  std::uint8_t levels[segment_blocks];
};
__device__ inline int position_of(std::uint32_t pick) { return static_cast<int>(pick & 0xffff); }
__device__ inline float value_of(std::uint32_t pick, const Segment& of) {
  const double size = ldexp(threshold_of(of.code) * weight_of(of.levels[position_of(pick) / block]), static_cast<int>(pick >> 17));
  const auto value = static_cast<float>(size < 0x1.fffffep127 ? size : 0x1.fffffep127);
  return pick >> 16 & 1 ? -value : value;
}

/// The key of an element: bits of a float that is not negative, in the order of the floats.
__device__ inline std::uint32_t key_of(const float* grad, const float* error, Size i, const float* units, int in_segment) {
  return __float_as_uint(fabsf(grad[i] + error[i]) / units[in_segment / block]);
}

/// From the top, the bin in which the k-th key lies; `k` becomes its number there. One warp.
__device__ inline int bin_of(const unsigned* histogram, int& k) {
  constexpr int each = bins / 32;
  const int lane = static_cast<int>(threadIdx.x), top = bins - 1 - lane * each;
  int own = 0;
  for (int i = 0; i < each; ++i) own += static_cast<int>(histogram[top - i]);
  int before = own;
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const int other = __shfl_up_sync(~0u, before, lanes);
    if (lane >= lanes) before += other;
  }
  before -= own;
  const bool here = before < k && k <= before + own;
  int bin = 0, rest = 0;
  if (here) {
    rest = k - before;
    for (bin = top; rest > static_cast<int>(histogram[bin]); --bin) rest -= static_cast<int>(histogram[bin]);
  }
  k = __reduce_max_sync(~0u, rest);
  return __reduce_max_sync(~0u, bin);
}

__device__ inline int ones(unsigned bits) {
  int count = 0;
  for (; bits != 0; bits &= bits - 1) ++count;
  return count;
}

__global__ void __launch_bounds__(pick_threads) pick(const float* grad, const float* error, Size n, const double* means, const Verdict* verdict, Segment* segments,
                                                     std::uint32_t* picks) {
  if (is_bad(*verdict)) return;
  __shared__ unsigned histogram[bins];
  __shared__ float units[segment_blocks];
  __shared__ int levels_here[segment_blocks];
  __shared__ int wanted, prefix, above_of[pick_warps], equal_of[pick_warps], nonzero;
  const Size begin = Size{blockIdx.x} * segment;
  const int m = begin + segment < n ? segment : static_cast<int>(n - begin), blocks = (m + block - 1) / block;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  if (thread < segment_blocks) {
    int level = 0;
    if (thread < blocks) {
      double steepest = 0;
      for (int b = 0; b < blocks; ++b) steepest = means[Size{blockIdx.x} * segment_blocks + b] > steepest ? means[Size{blockIdx.x} * segment_blocks + b] : steepest;
      const double mean = means[Size{blockIdx.x} * segment_blocks + thread], exact = mean > 0 ? round(log2(steepest / mean)) : levels;
      level = exact < levels - 1 ? static_cast<int>(exact) : levels - 1;
    }
    levels_here[thread] = level;
    units[thread] = static_cast<float>(weight_of(level));
    segments[blockIdx.x].levels[thread] = static_cast<std::uint8_t>(level);
  }
  if (thread == 0) {
    const int budget = static_cast<int>(static_cast<double>(m) * density);
    wanted = budget > 1 ? budget : 1;
    prefix = 0;
    nonzero = 0;
  }
  __syncthreads();
  // The k-th largest key, eleven and twice ten bits at a time; zeros have none.
  for (int shift = 20; shift >= 0; shift -= 10) {
    for (int i = thread; i < bins; i += pick_threads) histogram[i] = 0;
    __syncthreads();
    const auto known = static_cast<std::uint32_t>(prefix);
    int own = 0;
    for (int i = thread; i < m; i += pick_threads) {
      const std::uint32_t key = key_of(grad, error, begin + i, units, i);
      if (key == 0) continue;
      ++own;
      if (shift == 20) atomicAdd(&histogram[key >> 20], 1u);
      else if (key >> (shift + 10) == known) atomicAdd(&histogram[key >> shift & 1023], 1u);
    }
    if (shift == 20 && own > 0) atomicAdd(&nonzero, own);
    __syncthreads();
    if (nonzero == 0) break;
    if (warp == 0) {
      int k = wanted < nonzero ? wanted : nonzero;
      const int bin = bin_of(histogram, k);
      if (lane == 0) {
        wanted = k;
        prefix = shift == 20 ? bin : prefix << 10 | bin;
      }
    }
    __syncthreads();
  }
  if (nonzero == 0) {
    if (thread == 0) segments[blockIdx.x].count = 0;
    return;
  }
  // A warp looks at 2048 elements, a lane at every 32nd of them: all above the key, and of the equal ones the first few.
  const auto least = static_cast<std::uint32_t>(prefix);
  const int needed = wanted, left = m - warp * rounds * 32, own_rounds = left <= 0 ? 0 : left < rounds * 32 ? (left + 31) / 32 : rounds;
  unsigned long long above = 0, equal = 0;
  int own_above = 0, own_equal = 0;
  for (int r = 0; r < own_rounds; ++r) {
    const int i = warp * rounds * 32 + r * 32 + lane;
    const std::uint32_t key = i < m ? key_of(grad, error, begin + i, units, i) : 0;
    above |= static_cast<unsigned long long>(key > least) << r;
    equal |= static_cast<unsigned long long>(key == least) << r;
    own_above += key > least;
    own_equal += key == least;
  }
  const int above_here = __reduce_add_sync(~0u, own_above), equal_here = __reduce_add_sync(~0u, own_equal);
  if (lane == 0) {
    above_of[warp] = above_here;
    equal_of[warp] = equal_here;
  }
  __syncthreads();
  int above_before = 0, equal_before = 0;
  for (int w = 0; w < warp; ++w) {
    above_before += above_of[w];
    equal_before += equal_of[w];
  }
  int count = needed;
  for (int w = 0; w < pick_warps; ++w) count += above_of[w];
  const double size = __uint_as_float(least), exact = floor(16 * log2(size)) + code_of_one;
  int code = exact < 1 ? 1 : exact > codes - 1 ? codes - 1 : static_cast<int>(exact);
  if (code > 1 && threshold_of(code) > size) --code;  // log2 may round up
  if (thread == 0) {
    segments[blockIdx.x].count = count;
    segments[blockIdx.x].code = code;
  }
  const unsigned earlier = (1u << lane) - 1;
  for (int r = 0; r < own_rounds; ++r) {
    const bool is_above = above >> r & 1, is_equal = equal >> r & 1;
    const unsigned above_votes = __ballot_sync(~0u, is_above), equal_votes = __ballot_sync(~0u, is_equal);
    const int equal_at = equal_before + ones(equal_votes & earlier);
    if (is_above || (is_equal && equal_at < needed)) {
      const int i = warp * rounds * 32 + r * 32 + lane, at = above_before + ones(above_votes & earlier) + (equal_at < needed ? equal_at : needed);
      const float c = grad[begin + i] + error[begin + i];
      const int exponent = ilogb(static_cast<double>(fabsf(c)) / (threshold_of(code) * weight_of(levels_here[i / block])));
      const int magnitude = exponent < 0 ? 0 : exponent > most_classes ? most_classes : exponent;
      picks[Size{blockIdx.x} * picks_stride + at] = static_cast<std::uint32_t>(i) | (c < 0 ? 1u : 0u) << 16 | static_cast<std::uint32_t>(magnitude) << 17;
    }
    above_before += ones(above_votes);
    equal_before += ones(equal_votes);
  }
}

/// range_coder.h's encoder, with bytes in an array.
class Encoder {
 public:
  __device__ explicit Encoder(std::uint8_t* bytes) : bytes_(bytes) {}
  __device__ void put(std::uint32_t start, std::uint32_t width, std::uint32_t total) {
    const std::uint32_t unit = range_ / total;
    low_ += std::uint64_t{unit} * start;
    range_ = unit * width;
    while (range_ < (1u << 24)) {
      shift();
      range_ <<= 8;
    }
  }
  __device__ void put_uniform(int value, int total) {
    if (total > 1) put(static_cast<std::uint32_t>(value), 1, static_cast<std::uint32_t>(total));
  }
  /// A yes or no of 2^12, whose probability is learnt.
  __device__ void put_bit(std::uint32_t& no, bool yes) {
    if (yes) put(no, 4096 - no, 4096);
    else put(0, no, 4096);
    no = yes ? no - (no >> 5) : no + ((4096 - no) >> 5);
  }
  __device__ int finish() {
    for (int bits = 31; bits >= 0; --bits) {
      const std::uint64_t mask = (std::uint64_t{1} << bits) - 1, rounded = (low_ + mask) & ~mask;
      if (rounded < low_ + range_) {
        low_ = rounded;
        break;
      }
    }
    for (int i = 0; i < 5; ++i) shift();
    while (at_ > 0 && bytes_[at_ - 1] == 0) --at_;
    return at_;
  }

 private:
  __device__ void byte(std::uint32_t value) {
    if (at_ >= 0) bytes_[at_] = static_cast<std::uint8_t>(value);  // the one before the first is always 0
    ++at_;
  }
  __device__ void shift() {
    if (low_ < 0xff000000u || low_ > 0xffffffffu) {
      const auto carry = static_cast<std::uint32_t>(low_ >> 32);
      byte(held_ + carry);
      for (; held_ones_ > 0; --held_ones_) byte(0xff + carry);
      held_ = static_cast<std::uint32_t>(low_ >> 24) & 0xff;
    } else {
      ++held_ones_;
    }
    low_ = (low_ & 0x00ffffffu) << 8;
  }

  std::uint8_t* bytes_;
  std::uint64_t low_ = 0;
  std::uint32_t range_ = 0xffffffffu, held_ = 0;
  int at_ = -1, held_ones_ = 0;
};

/// A warp a segment, of which one lane codes.
__global__ void __launch_bounds__(32) encode(Size n, const Verdict* verdict, const Segment* segments, const std::uint32_t* picks, std::uint8_t* payloads, int* lengths) {
  if (is_bad(*verdict)) return;
  __shared__ std::uint32_t own[picks_stride];
  const Segment& of = segments[blockIdx.x];
  const int count = of.count;
  for (int j = static_cast<int>(threadIdx.x); j < count; j += 32) own[j] = picks[Size{blockIdx.x} * picks_stride + j];
  __syncwarp();
  if (threadIdx.x > 0) return;
  if (count == 0) {
    lengths[blockIdx.x] = 0;
    return;
  }
  const Size begin = Size{blockIdx.x} * segment;
  const int m = begin + segment < n ? segment : static_cast<int>(n - begin);
  const int budget = static_cast<int>(static_cast<double>(m) * density), usual = budget > 1 ? budget : 1;
  Encoder coder(payloads + Size{blockIdx.x} * payload_stride);
  std::uint32_t larger = 3968, much_larger = 2048, short_count = 4064;
  coder.put_uniform(of.code, codes);
  coder.put_bit(short_count, count != usual);
  if (count != usual) coder.put_uniform(count, usual);
  // Ranges that wait: of blocks while they are longer than one, then of elements. Both in elements; a range's left half is next.
  struct Range {
    int first, last, k;
    bool of_blocks;
  } waiting[24];
  int depth = 0, at = 0;
  waiting[depth++] = {0, m, count, true};
  while (depth > 0) {
    Range range = waiting[--depth];
    if (range.k == 0) continue;
    if (range.of_blocks && range.last - range.first <= block) {
      coder.put_uniform(of.levels[range.first / block], levels);
      range.of_blocks = false;
    }
    if (!range.of_blocks && range.k == 1) {
      const std::uint32_t pick = own[at++];
      coder.put_uniform(position_of(pick) - range.first, range.last - range.first);
      const int magnitude = static_cast<int>(pick >> 17);
      for (int c = 0; c <= magnitude; ++c) coder.put_bit(c == 0 ? larger : much_larger, c < magnitude);
      coder.put_uniform(static_cast<int>(pick >> 16 & 1), 2);
      continue;
    }
    const int middle = range.of_blocks ? static_cast<int>((range.first / block + (range.last + block - 1) / block) / 2 * block) : (range.first + range.last) / 2;
    int low = 0, high = range.k;  // of the next k, those before the middle
    while (low < high) {
      const int half = (low + high) / 2;
      if (position_of(own[at + half]) < middle) low = half + 1;
      else high = half;
    }
    const int left = low;
    if (!range.of_blocks && range.k <= binomial_most) {
      const std::uint32_t* starts = binomial.starts + row_start(range.k);
      coder.put(starts[left], starts[left + 1] - starts[left], 1 << 16);
    } else {
      const int least = range.k - (range.last - middle) > 0 ? range.k - (range.last - middle) : 0, most = range.k < middle - range.first ? range.k : middle - range.first;
      coder.put_uniform(left - least, most - least + 1);
    }
    waiting[depth++] = {middle, range.last, range.k - left, range.of_blocks};
    waiting[depth++] = {range.first, middle, left, range.of_blocks};
  }
  int length = coder.finish();
  if (length == 0) payloads[Size{blockIdx.x} * payload_stride + length++] = 0;
  lengths[blockIdx.x] = length;
}

/// The blocks' mean |grad|, and whether everything is finite.
__global__ void __launch_bounds__(threads) weigh(Bucket x, Peers peers, double* means, Verdict* verdict) {
  const Size b = blockIdx.x, begin = b * block, m = begin + block <= x.n ? block : x.n - begin;
  const bool whole = is_whole(x, begin);
  check_peers(peers, b, gridDim.x, x.n, verdict);
  double sum = 0, all = 0;
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    float g[4], e[4];
    load_four(x.grad, begin + v * step + 4 * Size{threadIdx.x}, x.n, whole, g);
    load_four(x.error, begin + v * step + 4 * Size{threadIdx.x}, x.n, whole, e);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum += fabsf(g[k]);
      all += fabsf(g[k] + e[k]);
    }
  }
  sum = sum_of_block(sum);
  __syncthreads();
  all = sum_of_block(all);
  if (threadIdx.x > 0) return;
  means[b] = sum / static_cast<double>(m);
  if (!(all <= 0x1p200)) atomicMin(&verdict->data, static_cast<Place>(b));
}

__global__ void __launch_bounds__(threads) keep(Bucket x, const Verdict* verdict, bool alone, float* update, float* average, float* new_error) {
  if (is_bad(*verdict)) return;
  const Size begin = (Size{gridDim.x} - 1 - blockIdx.x) * block;
  const bool whole = is_whole(x, begin);
  float c[per_thread];
  load_sums(x, begin, whole, c);
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    const Size i = begin + v * step + 4 * Size{threadIdx.x};
    const float zeros[4] = {}, own[4] = {c[4 * v], c[4 * v + 1], c[4 * v + 2], c[4 * v + 3]};
    store_four(update, i, x.n, whole, zeros);
    store_four(new_error, i, x.n, whole, own);
    if (alone) store_four(average, i, x.n, whole, zeros);
  }
}

/// A block a segment: its length and payload behind those before it, and its picks.
__global__ void __launch_bounds__(threads) send(Bucket x, Verdict* verdict, bool alone, const Segment* segments, const std::uint32_t* picks, const std::uint8_t* payloads,
                                                const int* lengths, std::uint8_t* payload, float* update, float* average, float* new_error) {
  if (is_bad(*verdict)) return;
  const Size s = blockIdx.x, last = Size{gridDim.x} - 1, begin = s * segment;
  double earlier = 0;  // whole numbers
  for (Size before = threadIdx.x; before < s; before += threads) earlier += lengths[before];
  std::uint8_t* const out = payload + 2 * last + static_cast<Size>(sum_of_block(earlier));
  const int length = lengths[s];
  for (int i = static_cast<int>(threadIdx.x); i < length; i += threads) out[i] = payloads[s * payload_stride + i];
  if (threadIdx.x < 2 && s < last) payload[2 * s + threadIdx.x] = static_cast<std::uint8_t>(length >> 8 * threadIdx.x);
  if (threadIdx.x == 0 && s == last) verdict->bytes = out + length - payload;
  const Segment& of = segments[s];
  for (int j = static_cast<int>(threadIdx.x); j < of.count; j += threads) {
    const std::uint32_t pick = picks[s * picks_stride + j];
    const Size i = begin + position_of(pick);
    const float value = value_of(pick, of);
    update[i] = value;
    new_error[i] = x.grad[i] + x.error[i] - value;
    if (alone) average[i] = value;
  }
}

__global__ void __launch_bounds__(threads) mean(Bucket x, Peers peers, const Verdict* verdict, const float* update, float* average) {
  if (is_bad(*verdict)) return;
  const Size b = blockIdx.x, begin = b * block;
  const bool whole = is_whole(x, begin);
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    const int at = v * step + 4 * static_cast<int>(threadIdx.x);
    if (begin + at >= x.n) return;
    float updates[4], means[4];
    load_four(update, begin + at, x.n, whole, updates);
    mean_of(peers, b, gridDim.x, at, updates, means);
    store_four(average, begin + at, x.n, whole, means);
  }
}

}  // namespace faibench::grad_signsgd_error_feedback::on_device::sparse
