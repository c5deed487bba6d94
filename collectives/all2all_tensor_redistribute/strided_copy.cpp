// Long runs go past the caches in whole lines, short ones by moves of fixed size.
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

void stream_run(const std::byte* from, std::byte* to, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, bytes);
#else
  constexpr hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d), head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64)
    for (std::size_t part = 0; part < 64; part += lanes)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from) + i + part), d, reinterpret_cast<std::uint8_t*>(to) + i + part);
  std::memcpy(to + i, from + i, bytes - i);
#endif
}

}  // namespace faibench::all2all_tensor_redistribute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace faibench::all2all_tensor_redistribute {
namespace {

HWY_EXPORT(stream_run);

constexpr std::int64_t shortest_stream = 1024;  // bytes; below, the two broken lines of a run cost more than they save

template <std::size_t bytes>
void copy_fixed(const std::byte* from, std::byte* to, std::int64_t count, std::int64_t from_step, std::int64_t to_step) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, bytes);
}

void copy_loop(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t count, std::int64_t from_step, std::int64_t to_step, Store store) {
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
  if (store == Store::streamed && bytes >= shortest_stream) {
    const auto stream = HWY_DYNAMIC_DISPATCH(stream_run);
    for (std::int64_t i = 0; i < count; ++i) stream(from + i * from_step, to + i * to_step, static_cast<std::size_t>(bytes));
  } else {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(bytes));
  }
}

}  // namespace

void copy_strided(const StridedCopy& copy, const std::byte* from, std::byte* to, std::int64_t element, Store store) {
  from += copy.from * element;
  to += copy.to * element;
  const std::int64_t bytes = copy.run * element;
  if (copy.loops == 0) return copy_loop(from, to, bytes, 1, 0, 0, store);
  std::array<std::int64_t, 8> at{};
  for (;;) {
    copy_loop(from, to, bytes, copy.count[0], copy.from_stride[0] * element, copy.to_stride[0] * element, store);
    std::size_t loop = 1;
    for (; loop < static_cast<std::size_t>(copy.loops); ++loop) {
      from += copy.from_stride[loop] * element;
      to += copy.to_stride[loop] * element;
      if (++at[loop] < copy.count[loop]) break;
      at[loop] = 0;
      from -= copy.count[loop] * copy.from_stride[loop] * element;
      to -= copy.count[loop] * copy.to_stride[loop] * element;
    }
    if (loop >= static_cast<std::size_t>(copy.loops)) return;
  }
}

void flush_streams() { hwy::FlushStream(); }

}  // namespace faibench::all2all_tensor_redistribute
#endif
