// Long runs go in whole lines, past the caches if wanted, with the next run asked for meanwhile; short ones by moves of fixed size.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/all2all_tensor_redistribute/strided_copy.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "collectives/all2all_tensor_redistribute/strided_copy.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::all2all_tensor_redistribute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `next`: where the run after this one starts. What is read next is asked for ahead, across the end of the run: the hardware's own reading ahead stops at every page and starts anew in every run.
template <bool streamed>
void copy_run(const std::byte* from, const std::byte* next, std::byte* to, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  (void)next;
  std::memcpy(to, from, bytes);
#else
  constexpr hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d), head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  std::size_t i = head;
  const auto copy_lines = [&](std::size_t past, const std::byte* base, std::ptrdiff_t shift) {
    for (; i + 64 <= past; i += 64) {
      hwy::Prefetch(base + (static_cast<std::ptrdiff_t>(i) + shift));
      for (std::size_t part = 0; part < 64; part += lanes) {
        const auto line = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from) + i + part);
        if constexpr (streamed) hn::Stream(line, d, reinterpret_cast<std::uint8_t*>(to) + i + part);
        else hn::Store(line, d, reinterpret_cast<std::uint8_t*>(to) + i + part);
      }
    }
  };
  const auto length = static_cast<std::ptrdiff_t>(bytes), ahead = std::min<std::ptrdiff_t>(2048, length);
  if (length > ahead) copy_lines(static_cast<std::size_t>(length - ahead), from, ahead);
  copy_lines(bytes, next, ahead - length);
  std::memcpy(to + i, from + i, bytes - i);
#endif
}
void stream_run(const std::byte* from, const std::byte* next, std::byte* to, std::size_t bytes) { copy_run<true>(from, next, to, bytes); }
void store_run(const std::byte* from, const std::byte* next, std::byte* to, std::size_t bytes) { copy_run<false>(from, next, to, bytes); }

}  // namespace faibench::all2all_tensor_redistribute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::all2all_tensor_redistribute {
namespace {

HWY_EXPORT(stream_run);
HWY_EXPORT(store_run);

constexpr std::int64_t shortest_run = 1024;  // bytes; below, the two broken lines of a run cost more than they save

template <std::size_t bytes>
void copy_fixed(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t from_step, std::int64_t to_step) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
}

void copy_loop(const std::byte* from, const std::byte* next, std::byte* to, std::int64_t bytes, std::int64_t count, std::int64_t from_step, std::int64_t to_step, Store store) {
  switch (bytes) {
    case 1: return copy_fixed<1>(from, to, count, from_step, to_step);
    case 2: return copy_fixed<2>(from, to, count, from_step, to_step);
    case 4: return copy_fixed<4>(from, to, count, from_step, to_step);
    case 8: return copy_fixed<8>(from, to, count, from_step, to_step);
    case 16: return copy_fixed<16>(from, to, count, from_step, to_step);
    case 32: return copy_fixed<32>(from, to, count, from_step, to_step);
    case 64: return copy_fixed<64>(from, to, count, from_step, to_step);
    default: break;
  }
  if (bytes < shortest_run) {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
    return;
  }
  const auto copy = store == Store::streamed ? HWY_DYNAMIC_DISPATCH(stream_run) : HWY_DYNAMIC_DISPATCH(store_run);
  for (std::int64_t i = 0; i < count; ++i) copy(from + i * from_step, i + 1 < count ? from + (i + 1) * from_step : next, to + i * to_step, static_cast<std::size_t>(bytes));
}

}  // namespace

void copy_strided(const StridedCopy& copy, const std::byte* from, std::byte* to, std::int64_t element, Store store, const std::byte* next) {
  from += copy.from * element;
  to += copy.to * element;
  const std::int64_t bytes = copy.run * element;
  const bool one_run = copy.loops == 0;
  const std::int64_t count = one_run ? 1 : copy.count[0], from_step = one_run ? 0 : copy.from_stride[0] * element, to_step = one_run ? 0 : copy.to_stride[0] * element;
  std::array<std::int64_t, 8> at{};
  for (bool more = true; more;) {
    const std::byte* const from_now = from;
    std::byte* const to_now = to;
    more = false;
    for (std::size_t loop = 1; loop < static_cast<std::size_t>(copy.loops) && !more; ++loop) {
      from += copy.from_stride[loop] * element;
      to += copy.to_stride[loop] * element;
      more = ++at[loop] < copy.count[loop];
      if (more) break;
      at[loop] = 0;
      from -= copy.count[loop] * copy.from_stride[loop] * element;
      to -= copy.count[loop] * copy.to_stride[loop] * element;
    }
    copy_loop(from_now, more ? from : next ? next : from_now, to_now, bytes, count, from_step, to_step, store);
  }
}

void flush_streams() { hwy::FlushStream(); }

}  // namespace faibench::all2all_tensor_redistribute
#endif
