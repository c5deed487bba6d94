// The finishing steps that several tasks share.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/finish.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "gemm/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> d;
using V = hn::Vec<decltype(d)>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(d));

void scale(const Tile& t, float alpha, float beta, const float* c, std::int64_t c_stride, float* out, std::int64_t stride) {
  const V va = hn::Set(d, alpha), vb = hn::Set(d, beta);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    const float* from = t.values + i * t.pitch;
    float* to = out + (t.row + i) * stride + t.column;
    std::int64_t j = 0;
    if (beta == 0) {
      for (; j + lanes <= t.columns; j += lanes) hn::StoreU(hn::Mul(va, hn::LoadU(d, from + j)), d, to + j);
      for (; j < t.columns; ++j) to[j] = alpha * from[j];
      continue;
    }
    const float* add = c + (t.row + i) * c_stride + t.column;
    for (; j + lanes <= t.columns; j += lanes) hn::StoreU(hn::Add(hn::Mul(va, hn::LoadU(d, from + j)), hn::Mul(vb, hn::LoadU(d, add + j))), d, to + j);
    for (; j < t.columns; ++j) to[j] = alpha * from[j] + beta * add[j];
  }
}

void copy(const Tile& t, float* out, std::int64_t stride) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    const float* from = t.values + i * t.pitch;
    float* to = out + (t.row + i) * stride + t.column;
    std::int64_t j = 0;
    for (; j + lanes <= t.columns; j += lanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    for (; j < t.columns; ++j) to[j] = from[j];
  }
}

void add(const Tile& t, float* out, std::int64_t stride) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    const float* from = t.values + i * t.pitch;
    float* to = out + (t.row + i) * stride + t.column;
    std::int64_t j = 0;
    for (; j + lanes <= t.columns; j += lanes) hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, from + j)), d, to + j);
    for (; j < t.columns; ++j) to[j] += from[j];
  }
}

void round_f16(const Tile& t, f16* out, std::int64_t stride) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    const float* from = t.values + i * t.pitch;
    f16* to = out + (t.row + i) * stride + t.column;
    std::int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::Rebind<hwy::float16_t, decltype(d)> half;
    for (; j + lanes <= t.columns; j += lanes) hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + j)), half, reinterpret_cast<hwy::float16_t*>(to) + j);
#endif
    for (; j < t.columns; ++j) to[j] = to_f16(from[j]);
  }
}

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::gemm {

HWY_EXPORT(scale);
HWY_EXPORT(copy);
HWY_EXPORT(add);
HWY_EXPORT(round_f16);

Finish scaled_sum(float alpha, float beta, const float* c, std::int64_t c_stride, float* d, std::int64_t d_stride) {
  const Touched addend{beta == 0 ? nullptr : c, c_stride, 4};
  return {[=](const Tile& tile) { HWY_DYNAMIC_DISPATCH(scale)(tile, alpha, beta, c, c_stride, d, d_stride); }, {{{d, d_stride, 4}, addend}}};
}
Finish store(float* d, std::int64_t d_stride) {
  return {[=](const Tile& tile) { HWY_DYNAMIC_DISPATCH(copy)(tile, d, d_stride); }, {{{d, d_stride, 4}}}};
}
Finish add_to(float* d, std::int64_t d_stride) {
  return {[=](const Tile& tile) { HWY_DYNAMIC_DISPATCH(add)(tile, d, d_stride); }, {{{d, d_stride, 4}}}};
}
Finish store_f16(f16* d, std::int64_t d_stride) {
  return {[=](const Tile& tile) { HWY_DYNAMIC_DISPATCH(round_f16)(tile, d, d_stride); }, {{{d, d_stride, 2}}}};
}

}  // namespace faibench::gemm
#endif
