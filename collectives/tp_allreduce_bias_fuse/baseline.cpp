// The eager form: each line one operation into a newly allocated buffer, released after its last use; no fusion. For f32 no casts.
#include <memory>

#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"

namespace faibench::tp_allreduce_bias_fuse::baseline {
namespace {

using Buffer = std::unique_ptr<float[]>;

Buffer allocate(std::int64_t count) { return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(count)); }

template <class T>
Buffer cast_to_f32(const T* x, std::int64_t count) {
  Buffer y = allocate(count);
  for (std::int64_t i = 0; i < count; ++i) y[static_cast<std::size_t>(i)] = to_float(x[i]);
  return y;
}

Buffer add(const float* a, const float* b, std::int64_t count) {
  Buffer y = allocate(count);
  for (std::int64_t i = 0; i < count; ++i) y[static_cast<std::size_t>(i)] = a[i] + b[i];
  return y;
}

void add_to_rows(const float* a, const float* bias, std::int64_t M, std::int64_t N, float* y) {
  for (std::int64_t m = 0; m < M; ++m)
    for (std::int64_t n = 0; n < N; ++n) y[m * N + n] = a[m * N + n] + bias[n];
}

}  // namespace

template <class T>
void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out) {
  const std::int64_t P = partials.extent(0), M = partials.extent(1), N = partials.extent(2), L = M * N;
  Buffer acc = cast_to_f32(partials.data(), L);
  for (std::int64_t p = 1; p < P; ++p) {
    const Buffer t = cast_to_f32(partials.data() + p * L, L);
    acc = add(acc.get(), t.get(), L);
  }
  const Buffer bias_f32 = cast_to_f32(bias.data(), N);
  Buffer y = allocate(L);
  add_to_rows(acc.get(), bias_f32.get(), M, N, y.get());
  acc.reset();
  for (std::int64_t i = 0; i < L; ++i) out.data()[i] = round_to<T>(y[static_cast<std::size_t>(i)]);
}

template <>
void reduce_partials<float>(View<const float, 3> partials, View<const float, 1> bias, View<float, 2> out) {
  const std::int64_t P = partials.extent(0), M = partials.extent(1), N = partials.extent(2), L = M * N;
  const float* acc = partials.data();
  Buffer owned;
  for (std::int64_t p = 1; p < P; ++p) {
    owned = add(acc, partials.data() + p * L, L);
    acc = owned.get();
  }
  add_to_rows(acc, bias.data(), M, N, out.data());
}

template void reduce_partials<f16>(View<const f16, 3>, View<const f16, 1>, View<f16, 2>);
template void reduce_partials<bf16>(View<const bf16, 3>, View<const bf16, 1>, View<bf16, 2>);

}  // namespace faibench::tp_allreduce_bias_fuse::baseline
