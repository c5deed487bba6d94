// Compressed time, size order and lower bound of the fast planner: counting sorts over the input, no comparison sort where times are dense.
#include "kernels/memory/runtime_arena_memplan/cpu_timeline.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace faibench::runtime_arena_memplan::cpu {
namespace {

// Sizes as floats with 6 bits of mantissa, upside down: units of 1 .. 2^40 give keys 0 .. key_count-1, the largest first.
constexpr int mantissa_bits = 6;
constexpr std::uint32_t key_of_one = std::uint32_t{127} << mantissa_bits, key_count = (41u << mantissa_bits) + 1;
std::uint32_t size_key(std::int64_t units) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(units));
  return key_count - 1 - ((bits >> (23 - mantissa_bits)) - key_of_one);
}

int shift_of(int length_class) { return length_class == 0 ? 0 : 2 * length_class - 1; }  // a quarter of the longest lifetime of the class

void prefix_sums(std::int32_t* counts, std::size_t n) {  // exclusive
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::exchange(counts[i], sum);
}

}  // namespace

void Scratch::Free::operator()(std::byte* p) const noexcept { std::free(p); }

void Scratch::reset(std::size_t bytes) {
  constexpr std::size_t keep = std::size_t{64} << 20;  // a huge plan does not leave its memory behind
  if (bytes > capacity_ || (capacity_ > keep && bytes <= keep)) {
    memory_.reset();
    capacity_ = (bytes + 4095) / 4096 * 4096;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, capacity_)));
    if (!memory_) {
      capacity_ = 0;
      throw std::bad_alloc();
    }
  }
  next_ = memory_.get();
}

int Timeline::class_of(std::int32_t length) { return std::bit_width(static_cast<std::uint32_t>(length - 1)) / 2; }

Timeline build_timeline(const Buffers& buffers, Scratch& scratch, std::size_t bytes_per_buffer, std::size_t bytes_per_step) {
  const auto& [align, size, alloc, free] = buffers;
  Timeline line;
  const std::int64_t N = size.extent(0);
  std::int64_t first = std::int64_t{1} << 41, last = 0;
  for (std::int64_t i = 0; i < N; ++i) {
    first = std::min(first, alloc[i]);
    last = std::max(last, free[i]);
  }

  // Steps. Dense times are taken as they are. Of sparse ones only the times of birth count: of two lifetimes that meet, one holds the birth of the other.
  const bool dense = last - first <= 4 * N + 1024;
  std::vector<std::int64_t> births;
  if (!dense) {
    births.reserve(static_cast<std::size_t>(N));
    for (std::int64_t i = 0; i < N; ++i)
      if (size[i] > 0) births.push_back(alloc[i]);
    std::sort(births.begin(), births.end());
    births.erase(std::unique(births.begin(), births.end()), births.end());
  }
  line.steps = static_cast<std::int32_t>(dense ? std::max<std::int64_t>(last - first, 1) : std::max<std::int64_t>(static_cast<std::int64_t>(births.size()), 1));
  const auto step_of = [&](std::int64_t time) {
    return static_cast<std::int32_t>(dense ? time - first : std::lower_bound(births.begin(), births.end(), time) - births.begin());
  };

  const std::size_t n = static_cast<std::size_t>(N), steps = static_cast<std::size_t>(line.steps);
  std::size_t bucket_count = 0;
  for (int c = 0; c < Timeline::class_count; ++c) {
    line.classes[c] = {0, shift_of(c), static_cast<std::int32_t>(bucket_count)};
    bucket_count += (steps >> shift_of(c)) + 2;
  }
  constexpr std::size_t pad = Timeline::padding;
  scratch.reset((n + pad) * (2 * 4 + 3 * 4 + 8 + 4 + bytes_per_buffer) + (steps + 1 + pad) * (8 + 4 + bytes_per_step) + (bucket_count + key_count) * 4 + 64 * 64);
  std::int32_t* const start = scratch.take<std::int32_t>(n);  // by index
  std::int32_t* const end = scratch.take<std::int32_t>(n);
  std::int64_t* const change = scratch.take<std::int64_t>(steps + 1);
  line.crowded_before = scratch.take<std::int32_t>(steps + 1);
  std::int32_t* const key_begin = scratch.take<std::int32_t>(key_count);
  line.bucket_begin = scratch.take<std::int32_t>(bucket_count);
  line.start = scratch.take<std::int32_t>(n + pad);
  line.end = scratch.take<std::int32_t>(n + pad);
  line.origin = scratch.take<std::int32_t>(n + pad);
  line.units = scratch.take<std::int64_t>(n + pad);
  line.order = scratch.take<std::int32_t>(n + pad);
  std::memset(change, 0, (steps + 1) * sizeof *change);
  std::memset(key_begin, 0, key_count * sizeof *key_begin);
  std::memset(line.bucket_begin, 0, bucket_count * sizeof *line.bucket_begin);

  const int align_bits = std::countr_zero(static_cast<std::uint64_t>(align));
  const auto units_of = [align = align, align_bits](std::int64_t bytes) { return (bytes + align - 1) >> align_bits; };
  const auto bucket_of = [&](std::int32_t from, std::int32_t length) {
    const Timeline::LengthClass& c = line.classes[Timeline::class_of(length)];
    return static_cast<std::size_t>(c.first_bucket + (from >> c.shift));
  };

  // Count.
  for (std::int64_t i = 0; i < N; ++i) {
    if (size[i] == 0) continue;
    const std::int32_t a = step_of(alloc[i]), f = step_of(free[i]), length = f - a;
    const std::int64_t units = units_of(size[i]);
    start[i] = a;
    end[i] = f;
    Timeline::LengthClass& c = line.classes[Timeline::class_of(length)];
    c.longest = std::max(c.longest, length);
    ++line.bucket_begin[bucket_of(a, length)];
    ++key_begin[size_key(units)];
    change[a] += units;
    change[f] -= units;
    ++line.count;
    line.total_units += units;
    line.total_length += length;
  }
  std::int64_t alive = 0;
  for (std::size_t t = 0; t < steps; ++t) {
    change[t] = alive += change[t];
    line.lower_bound = std::max(line.lower_bound, alive);
  }
  std::int32_t crowded = 0;
  for (std::size_t t = 0; t < steps; ++t) {
    line.crowded_before[t] = crowded;
    crowded += 2 * change[t] > line.lower_bound;
  }
  line.crowded_before[steps] = crowded;

  // Scatter to positions; long lifetimes leave the count of sizes and go first.
  prefix_sums(line.bucket_begin, bucket_count);
  const std::int64_t longest_usual = line.count > 0 ? 16 * line.total_length / line.count : 0;
  std::int32_t long_count = 0;
  for (std::int64_t i = 0; i < N; ++i) {
    if (size[i] == 0) continue;
    const std::int32_t at = line.bucket_begin[bucket_of(start[i], end[i] - start[i])]++;
    line.start[at] = start[i];
    line.end[at] = end[i];
    line.units[at] = units_of(size[i]);
    line.origin[at] = static_cast<std::int32_t>(i);
    if (end[i] - start[i] > longest_usual) {
      line.order[long_count++] = at;
      --key_begin[size_key(line.units[at])];
    }
  }
  std::memmove(line.bucket_begin + 1, line.bucket_begin, (bucket_count - 1) * sizeof *line.bucket_begin);  // each begin had moved on to its end
  line.bucket_begin[0] = 0;

  // Positions to the order of placement; equal sizes stay in the order of length class and birth, which stacks them well.
  std::sort(line.order, line.order + long_count, [&](std::int32_t a, std::int32_t b) {
    if (line.start[a] != line.start[b]) return line.start[a] < line.start[b];
    return line.end[a] != line.end[b] ? line.end[a] > line.end[b] : a < b;
  });
  prefix_sums(key_begin, key_count);
  for (std::int32_t at = 0; at < line.count; ++at)
    if (line.end[at] - line.start[at] <= longest_usual) line.order[long_count + key_begin[size_key(line.units[at])]++] = at;
  for (std::size_t k = 0; k < pad; ++k) line.start[static_cast<std::size_t>(line.count) + k] = line.end[static_cast<std::size_t>(line.count) + k] = 0;  // conflict with nothing
  return line;
}

}  // namespace faibench::runtime_arena_memplan::cpu
