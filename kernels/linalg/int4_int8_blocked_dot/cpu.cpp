// The joint sign of an element goes onto the nibble: with m = a_sign ^ b_sign and n' = m ? 16 - n : n, which is 0..16, the block sum is sum n'*q - 8*sum q. So no -128 is ever negated, the
// unsigned by signed 8-bit products that processors have do all multiplications, and -8*sum q is the same for all rows: the accumulators start with it. b is packed once a call into the order in
// which whole vectors of a's nibbles come (low halves of four blocks, high halves of four blocks), a is read as it lies.
// Bound: 21 bytes a block and row through memory; a core that reads 15 GB/s is at it with 1.4 ns a block. In cache, Zen 4, a block and row takes 0.73 ns with AVX-512 and VNNI, 1.1 ns with
// AVX2, 5.6 ns in plain C++ (SSE2), 2.2 ns in AVX2 one block after another with a horizontal sum each, and 50 to 65 ns in the baseline.
// Calling a ahead, 2 KiB into the second-level cache, takes one core at standard from 23.1 ms to 18.6 ms (18.9 GB/s, where reading alone gives 22.5); into the first-level cache 19.8.
// Lost: two rows at once, to load b once for both: no faster in cache, and half as fast from memory (44.8 against 24.5 ms on one core at standard: six streams instead of three).
#include "kernels/linalg/int4_int8_blocked_dot/cpu.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/linalg/int4_int8_blocked_dot/int4_int8_blocked_dot.h"

namespace faibench::int4_int8_blocked_dot::cpu {
namespace {

/// Part `index` of `count` parts of 0 .. total-1, in whole steps.
Range part(std::int64_t total, std::int64_t step, std::int64_t index, std::int64_t count) {
  const std::int64_t steps = (total + step - 1) / step;
  return {std::min(total, steps * index / count * step), std::min(total, steps * (index + 1) / count * step)};
}

void add_blocks(const Form& form, const Weights& a, const Activations& b, Range rows, Range blocks, std::uint64_t* sums) {
  alignas(64) std::array<std::byte, packed_room> packed;
  for (std::int64_t first = blocks.first; first < blocks.end; first += most_blocks) {
    const Range piece{first, std::min(blocks.end, first + most_blocks)};
    form.pack(b, piece, packed.data());
    form.add_rows(a, rows, piece, packed.data(), sums);
  }
}

}  // namespace

std::span<const Form* const> forms() {
  static constexpr std::array<const Form*, 3> all = {&vnni_form, &avx2_form, &portable_form};
  return all;
}

void blocked_dot(const Form& form, const Weights& a, const Activations& b, std::int64_t* dot) {
  auto* const sums = reinterpret_cast<std::uint64_t*>(dot);
  std::fill(sums, sums + a.R, 0);
  const std::int64_t work = a.R * a.nb;
  const int threads = work < 4096 ? 1 : omp_get_max_threads();  // smaller ones end before a second thread is awake
  if (a.R >= 8 * threads) {
#pragma omp parallel num_threads(threads)
    add_blocks(form, a, b, part(a.R, 1, omp_get_thread_num(), omp_get_num_threads()), {0, a.nb}, sums);
    return;
  }
  // Few rows: each thread takes a range of blocks of all of them.
  std::vector<std::uint64_t> partial(static_cast<std::size_t>(threads * a.R));
#pragma omp parallel num_threads(threads)
  add_blocks(form, a, b, {0, a.R}, part(a.nb, 16, omp_get_thread_num(), omp_get_num_threads()), partial.data() + omp_get_thread_num() * a.R);
  for (int t = 0; t < threads; ++t)
    for (std::int64_t r = 0; r < a.R; ++r) sums[r] += partial[static_cast<std::size_t>(t * a.R + r)];
}

void blocked_dot(View<const std::uint8_t, 3> a_q, View<const std::int8_t, 2> a_coef, View<const std::uint32_t, 2> a_sign, View<const std::int8_t, 2> b_q, View<const std::int16_t, 1> b_coef,
                 View<const std::uint32_t, 1> b_sign, View<std::int64_t, 1> dot) {
  static const Form& best = **std::ranges::find_if(forms(), [](const Form* form) { return form->runs_here(); });
  blocked_dot(best, {a_q.data(), a_coef.data(), a_sign.data(), a_q.extent(0), a_q.extent(1)}, {b_q.data(), b_coef.data(), b_sign.data()}, dot.data());
}

}  // namespace faibench::int4_int8_blocked_dot::cpu
