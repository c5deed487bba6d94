// kernel.h's vocabulary on the emulator. What stands here is no part of a kernel: it is compiled without the instrumentation and says itself what it touches.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "cuda/stream.h"
#include "emulator/device.h"
#include "emulator/thread.h"

// One block runs at a time, so that its shared memory can be a variable.
#undef __shared__
#define __shared__ static constinit  // arrays of __half would get a guard otherwise
#undef __launch_bounds__
#define __launch_bounds__(...)
#define threadIdx (::faibench::emulator::self().thread)
#define blockIdx (::faibench::emulator::self().block)
#define blockDim (::faibench::emulator::self().block_size)
#define gridDim (::faibench::emulator::self().grid_size)
#define FAIBENCH_EMULATOR_CODE __attribute__((no_sanitize("thread", "bounds"), noinline))

inline constexpr int warpSize = 32;

FAIBENCH_EMULATOR_CODE inline void __syncthreads(unsigned line = __builtin_LINE()) { faibench::emulator::block_barrier(line); }
FAIBENCH_EMULATOR_CODE inline void __syncwarp(unsigned mask = ~0u, unsigned line = __builtin_LINE()) {
  faibench::emulator::warp_exchange(mask, "__syncwarp", line, nullptr, 0, nullptr);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace faibench::cuda {

/// The values of all lanes of `mask`; the others' are zero.
template <class T>
FAIBENCH_EMULATOR_CODE std::array<T, 32> of_all_lanes(unsigned mask, T value, const char* operation, unsigned line) {
  std::array<T, 32> all{};
  emulator::warp_exchange(mask, operation, line, &value, sizeof value, all.data());
  return all;
}

/// What lane `from` of this lane's section gave; its own where that is no lane of the section.
template <class T>
FAIBENCH_EMULATOR_CODE T shuffle(unsigned mask, T value, int from, bool inside, int width, const char* operation, unsigned line) {
  const auto all = of_all_lanes(mask, value, operation, line);
  const int lane = static_cast<int>(emulator::lane());
  if (!inside) return value;
  const int source = lane / width * width + from;
  if ((mask >> source & 1) == 0) emulator::fail(emulator::Fault::Kind::divergent_warp, 0, "a shuffle reads a lane that the mask leaves out");
  return all[static_cast<std::size_t>(source)];
}

}  // namespace faibench::cuda

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, unsigned line = __builtin_LINE()) {
  return faibench::cuda::shuffle(mask, value, source & (width - 1), true, width, "__shfl_sync", line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, unsigned line = __builtin_LINE()) {
  const int from = static_cast<int>(faibench::emulator::lane()) % width - static_cast<int>(delta);
  return faibench::cuda::shuffle(mask, value, from, from >= 0, width, "__shfl_up_sync", line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, unsigned line = __builtin_LINE()) {
  const int from = static_cast<int>(faibench::emulator::lane()) % width + static_cast<int>(delta);
  return faibench::cuda::shuffle(mask, value, from, from < width, width, "__shfl_down_sync", line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, unsigned line = __builtin_LINE()) {
  const int from = static_cast<int>(faibench::emulator::lane()) % width ^ lanes;
  return faibench::cuda::shuffle(mask, value, from, from < width, width, "__shfl_xor_sync", line);
}
FAIBENCH_EMULATOR_CODE inline unsigned __ballot_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE()) {
  const auto all = faibench::cuda::of_all_lanes(mask, predicate != 0, "__ballot_sync", line);
  unsigned votes = 0;
  for (unsigned l = 0; l < 32; ++l) votes |= static_cast<unsigned>(all[l]) << l;
  return votes;
}
inline int __any_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE()) { return __ballot_sync(mask, predicate, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE()) { return __ballot_sync(mask, predicate, line) == mask; }

namespace faibench::cuda {
template <class T, class Op>
FAIBENCH_EMULATOR_CODE T reduce_lanes(unsigned mask, T value, const char* operation, unsigned line, Op op) {
  const auto all = of_all_lanes(mask, value, operation, line);
  T result = value;
  bool first = true;
  for (unsigned l = 0; l < 32; ++l) {
    if ((mask >> l & 1) == 0) continue;
    result = first ? all[l] : op(result, all[l]);
    first = false;
  }
  return result;
}
/// Reads, changes and writes back as one; gives the old value.
template <class T, class Op>
FAIBENCH_EMULATOR_CODE T change(T* at, Op op) {
  emulator::touch(at, sizeof(T), true, true);
  const T old = *at;
  *at = op(old);
  return old;
}
}  // namespace faibench::cuda

template <class T>
T __reduce_add_sync(unsigned mask, T value, unsigned line = __builtin_LINE()) { return faibench::cuda::reduce_lanes(mask, value, "__reduce_add_sync", line, [](T a, T b) { return static_cast<T>(a + b); }); }
template <class T>
T __reduce_max_sync(unsigned mask, T value, unsigned line = __builtin_LINE()) { return faibench::cuda::reduce_lanes(mask, value, "__reduce_max_sync", line, [](T a, T b) { return a > b ? a : b; }); }
template <class T>
T __reduce_min_sync(unsigned mask, T value, unsigned line = __builtin_LINE()) { return faibench::cuda::reduce_lanes(mask, value, "__reduce_min_sync", line, [](T a, T b) { return a < b ? a : b; }); }

template <class T>
T atomicAdd(T* at, T value) { return faibench::cuda::change(at, [value](T old) { return static_cast<T>(old + value); }); }
template <class T>
T atomicMax(T* at, T value) { return faibench::cuda::change(at, [value](T old) { return old > value ? old : value; }); }
template <class T>
T atomicMin(T* at, T value) { return faibench::cuda::change(at, [value](T old) { return old < value ? old : value; }); }
template <class T>
T atomicExch(T* at, T value) { return faibench::cuda::change(at, [value](T) { return value; }); }
template <class T>
T atomicCAS(T* at, T expected, T value) { return faibench::cuda::change(at, [expected, value](T old) { return old == expected ? value : old; }); }

template <class T>
T __ldg(const T* at) { return *at; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }

namespace faibench::cuda {

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Shape& shape, Arguments... arguments) {
  using All = std::tuple<void (*)(Parameters...), Parameters...>;
  const All all(kernel, arguments...);
  const auto index = [](dim3 d) { return emulator::Index{d.x, d.y, d.z}; };
  emulator::launch(
      current_stream(), name, {index(shape.grid), index(shape.block), shape.shared_bytes}, [](const void* of) { std::apply([](auto called, const auto&... values) { called(values...); }, *static_cast<const All*>(of)); }, &all, sizeof all);
}

template <class T>
T* dynamic_shared() { return reinterpret_cast<T*>(emulator::dynamic_shared()); }

template <int bytes>
FAIBENCH_EMULATOR_CODE void copy_async(void* shared, const void* device, int taken = bytes) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  emulator::copy_later(shared, device, bytes, static_cast<std::size_t>(taken));
}
inline void commit_copies() { emulator::commit_copies(); }
template <int pending>
void wait_copies() { emulator::wait_copies(pending); }

/// Rows of four 8x8 matrices, in the order of the lanes that gave their addresses.
FAIBENCH_EMULATOR_CODE inline std::array<std::array<std::uint16_t, 8>, 32> matrix_rows(const void* row, unsigned line) {
  std::array<std::uint16_t, 8> own;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) emulator::fail(emulator::Fault::Kind::misaligned, reinterpret_cast<std::uintptr_t>(row), "a matrix row at an address that is no multiple of 16");
  emulator::touch(row, 16, false);
  std::memcpy(own.data(), row, 16);
  return of_all_lanes(~0u, own, "ldmatrix", line);
}
inline std::uint32_t two_halves(std::uint16_t low, std::uint16_t high) { return low | static_cast<std::uint32_t>(high) << 16; }

FAIBENCH_EMULATOR_CODE inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row, unsigned line = __builtin_LINE()) {
  const auto rows = matrix_rows(row, line);
  const unsigned lane = emulator::lane(), column = lane % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) r[matrix] = two_halves(rows[8 * matrix + lane / 4][column], rows[8 * matrix + lane / 4][column + 1]);
}
FAIBENCH_EMULATOR_CODE inline void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row, unsigned line = __builtin_LINE()) {
  const auto rows = matrix_rows(row, line);
  const unsigned lane = emulator::lane(), first = lane % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) r[matrix] = two_halves(rows[8 * matrix + first][lane / 4], rows[8 * matrix + first + 1][lane / 4]);
}

/// Registers of one lane.
struct Fragments {
  std::uint32_t a[4], b[2];
};

// What the products call carries the attribute itself: a lambda would not have its function's, and be instrumented.
#define FAIBENCH_UNINSTRUMENTED __attribute__((no_sanitize("thread", "bounds")))

/// 16-bit elements: where k of a row of A, or of a column of B, lies among the lanes' registers.
template <class T>
struct HalfFragments {
  static constexpr unsigned depth = 16;
  FAIBENCH_UNINSTRUMENTED static float value(std::uint32_t two, unsigned k) {
    const auto bits = static_cast<std::uint16_t>(two >> (k % 2 * 16));
    if constexpr (std::is_same_v<T, __nv_bfloat16>) return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
    else return static_cast<float>(__builtin_bit_cast(T, bits));
  }
  FAIBENCH_UNINSTRUMENTED static float a(const Fragments* lanes, unsigned row, unsigned k) { return value(lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k); }
  FAIBENCH_UNINSTRUMENTED static float b(const Fragments* lanes, unsigned k, unsigned column) { return value(lanes[column * 4 + k % 8 / 2].b[k / 8], k); }
};
/// tf32: the lower 13 bits do not count.
struct Tf32Fragments {
  static constexpr unsigned depth = 8;
  FAIBENCH_UNINSTRUMENTED static float value(std::uint32_t bits) { return __builtin_bit_cast(float, bits & 0xffffe000u); }
  FAIBENCH_UNINSTRUMENTED static float a(const Fragments* lanes, unsigned row, unsigned k) { return value(lanes[row % 8 * 4 + k % 4].a[row / 8 + k / 4 * 2]); }
  FAIBENCH_UNINSTRUMENTED static float b(const Fragments* lanes, unsigned k, unsigned column) { return value(lanes[column * 4 + k % 4].b[k / 4]); }
};

/// d[row][column] += a[row][k] * b[k][column], k ascending, in f32: this lane's two rows and two columns.
template <class Of>
FAIBENCH_EMULATOR_CODE void multiply(float (&d)[4], const Fragments* lanes) {
  const unsigned group = emulator::lane() / 4, pair = emulator::lane() % 4;
  float a[2][Of::depth], b[2][Of::depth];
  for (unsigned i = 0; i < 2; ++i)
    for (unsigned k = 0; k < Of::depth; ++k) {
      a[i][k] = Of::a(lanes, group + 8 * i, k);
      b[i][k] = Of::b(lanes, k, 2 * pair + i);
    }
  for (unsigned i = 0; i < 4; ++i) {
    float sum = 0;
    for (unsigned k = 0; k < Of::depth; ++k) sum += a[i / 2][k] * b[i % 2][k];
    d[i] += sum;
  }
}

template <class T>
FAIBENCH_EMULATOR_CODE void multiply_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], unsigned line = __builtin_LINE()) {
  const auto all = of_all_lanes(~0u, Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, "mma.m16n8k16", line);
  multiply<HalfFragments<T>>(d, all.data());
}
FAIBENCH_EMULATOR_CODE inline void multiply_16x8x8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], unsigned line = __builtin_LINE()) {
  const auto all = of_all_lanes(~0u, Fragments{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, "mma.m16n8k8", line);
  multiply<Tf32Fragments>(d, all.data());
}

}  // namespace faibench::cuda
