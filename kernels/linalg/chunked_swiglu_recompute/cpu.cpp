// A block of tokens at a time, forward and backward together, in three buffers of rows x F. Products are those of src/gemm; what lies between them happens where a tile is finished.
//
//   g  = x @ w_gate^T                      G = g
//   u  = x @ w_up^T                        U = u, H = silu(g)*u                     vector exp, once
//   y  = H @ w_down^T                      y
//   dh = dy @ w_down                       G = dg, U = du, in place: dh itself is nowhere in memory
//   dx = [G | U] @ [w_gate; w_up]          dx, one product of inner dimension 2*F
//
// Memory. A call may hold 4*c*(6*F + 4*D) bytes and 16 MiB: three buffers need 12*F bytes a row, so a block may have twice as many rows as a chunk, and more where 4 of the 16 MiB
// buy them: the packing of the weights, repeated for every block, is then paid by more rows. It has fewer where the buffers would leave the second-level caches. The products may pack into
// 6 MiB, for all threads together. Threads share every product, so none of this grows with their number beyond what is allowed.
// Bound: 12*T*D*F operations at the peak of the fused multiply-adds.
// Measured on one Zen 4 core (AVX-512, 117 GFLOP/s), processor time: 512 x 256 x 688 10.6 ms, 102 GFLOP/s, 1.15 x the floor; 8192 x 64 x 512 38 ms, 86 GFLOP/s.
// Lost: all 512 tokens in one block (11.6 ms: the buffers come from the third-level cache), the same without asking for the next tile's lines ahead (12.7 ms). exp itself is not seen: without it the time is the same.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linalg/chunked_swiglu_recompute/cpu.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include <omp.h>

#include <algorithm>
#include <optional>

#include "gemm/gemm.h"
#include "kernels/linalg/chunked_swiglu_recompute/chunked_swiglu_recompute.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::chunked_swiglu_recompute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A number below the smallest that f32 holds: value * scale, of which neither is subnormal.
template <class V>
struct Scaled {
  V value, scale;
};

/// exp(x) for x <= 0, as if x were -174 below that (then e^x times the largest number is nothing beside the gate's bound); NaN stays NaN.
/// Within 2 ulp: Cephes' polynomial on [-ln2/2, ln2/2].
template <class D, class V = hn::Vec<D>>
HWY_INLINE Scaled<V> exp_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = hn::IfThenElse(hn::Lt(x, hn::Set(d, -174.0f)), hn::Set(d, -174.0f), x);
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto power = hn::ConvertTo(di, n), half = hn::ShiftRight<1>(power);
  const auto two_to = [=](auto exponent) { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127)))); };
  return {hn::Mul(p, two_to(half)), two_to(hn::Sub(power, half))};
}

/// sig(g), and 1 - sig(g) = sig(-g), neither by a subtraction.
template <class V>
struct Sigmoids {
  Scaled<V> of_g;
  V of_minus_g;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE Sigmoids<V> sigmoids(D d, V g) {
  const auto e = exp_negative(d, hn::Neg(hn::Abs(g)));
  const V one = hn::Set(d, 1.0f), large = hn::Div(one, hn::MulAdd(e.value, e.scale, one)), small = hn::Mul(e.value, large);
  const auto negative = hn::Lt(g, hn::Zero(d));
  return {{hn::IfThenElse(negative, small, large), hn::IfThenElse(negative, e.scale, one)}, hn::IfThenElse(negative, large, hn::Mul(small, e.scale))};
}

/// Values of u at u: stored, and h = silu(g)*u.
template <class D>
HWY_INLINE void forward_step(D d, const float* value, const float* g, float* u, float* h) {
  const auto of_u = hn::LoadU(d, value), of_g = hn::LoadU(d, g);
  const auto sig = sigmoids(d, of_g).of_g;
  hn::StoreU(of_u, d, u);
  hn::StoreU(hn::Mul(hn::Mul(hn::Mul(of_g, sig.value), of_u), sig.scale), d, h);
}

/// Values of dh: g becomes dg, u becomes du.
template <class D>
HWY_INLINE void backward_step(D d, const float* value, float* g, float* u) {
  const auto dh = hn::LoadU(d, value), of_g = hn::LoadU(d, g), of_u = hn::LoadU(d, u);
  const auto [sig, rest] = sigmoids(d, of_g);
  const auto slope = hn::Mul(sig.value, hn::MulAdd(of_g, rest, hn::Set(d, 1.0f)));
  hn::StoreU(hn::Mul(hn::Mul(hn::Mul(dh, slope), of_u), sig.scale), d, g);
  hn::StoreU(hn::Mul(hn::Mul(dh, hn::Mul(of_g, sig.value)), sig.scale), d, u);
}

constexpr hn::ScalableTag<float> d;
constexpr hn::CappedTag<float, 1> one;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));

/// What the tile below this one will want, asked for a tile's time before: lines of G, U and H come from the third-level cache, 190 cycles each if nobody asked.
HWY_INLINE void fetch_below(const gemm::Tile& tile, std::int64_t i, std::int64_t F, const float* m) {
  const float* const at = m + (tile.row + tile.rows + i) * F + tile.column;
  for (std::int64_t j = 0; j < tile.columns; j += 16) __builtin_prefetch(at + j, 1);
}

void finish_forward(const gemm::Tile& tile, std::int64_t F, const float* g, float* u, float* h) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const float* values = tile.values + i * tile.pitch;
    const std::int64_t at = (tile.row + i) * F + tile.column;
    for (const float* m : {g, static_cast<const float*>(u), static_cast<const float*>(h)}) fetch_below(tile, i, F, m);
    std::int64_t j = 0;
    for (; j + lanes <= tile.columns; j += lanes) forward_step(d, values + j, g + at + j, u + at + j, h + at + j);
    for (; j < tile.columns; ++j) forward_step(one, values + j, g + at + j, u + at + j, h + at + j);
  }
}

void finish_backward(const gemm::Tile& tile, std::int64_t F, float* g, float* u) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const float* values = tile.values + i * tile.pitch;
    const std::int64_t at = (tile.row + i) * F + tile.column;
    for (const float* m : {g, u}) fetch_below(tile, i, F, m);
    std::int64_t j = 0;
    for (; j + lanes <= tile.columns; j += lanes) backward_step(d, values + j, g + at + j, u + at + j);
    for (; j < tile.columns; ++j) backward_step(one, values + j, g + at + j, u + at + j);
  }
}

}  // namespace faibench::chunked_swiglu_recompute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::chunked_swiglu_recompute::cpu {
namespace {

HWY_EXPORT(finish_forward);
HWY_EXPORT(finish_backward);

constexpr std::int64_t mebibyte = 1 << 20, of_slack = 4 * mebibyte, packing = 6 * mebibyte;  // the rest of the 16 is for alignment to huge pages and what the system adds
constexpr std::int64_t of_cache = 3 * mebibyte / 2;  // a thread

/// Tokens of a block: its three buffers take no more than a chunk of `chunk` tokens may, and stay in the second-level caches if they can.
std::int64_t block_rows(std::int64_t T, std::int64_t D, std::int64_t F, std::int64_t chunk) {
  const std::int64_t allowed = 4 * chunk * (6 * F + 4 * D) + of_slack, cached = of_cache * omp_get_max_threads();
  const std::int64_t most = std::max<std::int64_t>(std::min(allowed, std::max(cached, 12 * F * 64)) / (12 * F), 1);
  const std::int64_t blocks = (T + most - 1) / most;
  return (T + blocks - 1) / blocks;  // equal ones
}

}  // namespace

void gated_mlp_fwd_bwd(Matrix x, Matrix w_gate, Matrix w_up, Matrix w_down, Matrix dy, std::int64_t chunk_size, Result y, Result dx) {
  const std::int64_t T = x.extent(0), D = x.extent(1), F = w_gate.extent(0);
  if (T * D == 0) return;
  if (F == 0) {
    std::fill_n(y.data(), T * D, 0.0f);
    std::fill_n(dx.data(), T * D, 0.0f);
    return;
  }
  const std::int64_t rows = block_rows(T, D, F, std::min(chunk_size, T)), bytes = 3 * rows * F * 4;
  // Kept from call to call is only what every call may hold, whatever its chunk: packing memory and buffers of up to 4 MiB.
  static thread_local gemm::Workspace workspace(packing);
  static thread_local std::optional<gemm::Workspace> kept;
  std::optional<gemm::Workspace> large;
  if (bytes > of_slack) kept.reset(), large.emplace(bytes);
  else if (!kept) kept.emplace(of_slack);
  float *const G = (large ? *large : *kept).at_least(bytes), *const U = G + rows * F, *const H = U + rows * F;
  const auto forward = HWY_DYNAMIC_DISPATCH(finish_forward);
  const auto backward = HWY_DYNAMIC_DISPATCH(finish_backward);
  for (std::int64_t first = 0; first < T; first += rows) {
    const std::int64_t n = std::min(rows, T - first);
    const Matrix x_rows(x.data() + first * D, {n, D}), dy_rows(dy.data() + first * D, {n, D}), g(G, {n, F}), u(U, {n, F}), h(H, {n, F});
    const auto product = [&](std::int64_t columns, std::initializer_list<gemm::Term> terms, const gemm::Finish& finish) { gemm::multiply(n, columns, {terms.begin(), terms.size()}, finish, workspace); };
    product(F, {{gemm::matrix(x_rows), gemm::transposed(w_gate), D}}, gemm::store(G, F));
    product(F, {{gemm::matrix(x_rows), gemm::transposed(w_up), D}}, [=](const gemm::Tile& tile) { forward(tile, F, G, U, H); });
    product(D, {{gemm::matrix(h), gemm::transposed(w_down), F}}, gemm::store(y.data() + first * D, D));
    product(F, {{gemm::matrix(dy_rows), gemm::matrix(w_down), D}}, [=](const gemm::Tile& tile) { backward(tile, F, G, U); });
    product(D, {{gemm::matrix(g), gemm::matrix(w_gate), F}, {gemm::matrix(u), gemm::matrix(w_up), F}}, gemm::store(dx.data() + first * D, D));
  }
}

}  // namespace faibench::chunked_swiglu_recompute::cpu
#endif
