// The naive algorithm as the contract words it: every element decoded on its own, an i32 sum a block.
#include "kernels/linalg/int4_int8_blocked_dot/int4_int8_blocked_dot.h"

namespace faibench::int4_int8_blocked_dot::baseline {

void blocked_dot(View<const std::uint8_t, 3> a_q, View<const std::int8_t, 2> a_coef, View<const std::uint32_t, 2> a_sign, View<const std::int8_t, 2> b_q, View<const std::int16_t, 1> b_coef,
                 View<const std::uint32_t, 1> b_sign, View<std::int64_t, 1> dot) {
  const std::int64_t R = a_q.extent(0), nb = a_q.extent(1);
  for (std::int64_t r = 0; r < R; ++r) {
    std::uint64_t total = 0;  // unsigned: the total wraps
    for (std::int64_t b = 0; b < nb; ++b) {
      const std::uint8_t* const q = a_q.data() + (r * nb + b) * 16;
      const std::int8_t* const p = b_q.data() + b * 32;
      const std::uint32_t q_signs = a_sign.data()[r * nb + b], p_signs = b_sign.data()[b];
      std::int32_t sum = 0;
      for (int j = 0; j < 32; ++j) {
        const std::int32_t n = (j < 16 ? q[j] & 15 : q[j - 16] >> 4) - 8, v = p[j];
        sum += (q_signs >> j & 1 ? -n : n) * (p_signs >> j & 1 ? -v : v);
      }
      total += static_cast<std::uint64_t>(std::int64_t{a_coef.data()[r * nb + b]} * b_coef.data()[b] * sum);
    }
    dot[r] = static_cast<std::int64_t>(total);
  }
}

}  // namespace faibench::int4_int8_blocked_dot::baseline
