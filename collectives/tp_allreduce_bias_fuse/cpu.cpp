// One pass: all P streams are read side by side, the sum stays in f32 registers, whole lines of `out` are streamed past the caches; the flat range is cut over threads.
// Bound: (P+1)*M*N elements through memory; 18 bytes an element for bf16 at P = 8 where the eager form moves 146.
#include <vector>

#include "collectives/tp_allreduce_bias_fuse/ordered_sum.h"
#include "collectives/tp_allreduce_bias_fuse/tp_allreduce_bias_fuse.h"

namespace faibench::tp_allreduce_bias_fuse::cpu {

template <class T>
void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out) {
  const std::int64_t P = partials.extent(0), N = partials.extent(2), L = out.size();
  if (L == 0) return;
  std::vector<const T*> streams;
  for (std::int64_t p = 0; p < P; ++p) streams.push_back(partials.data() + p * L);
  const auto store = L * static_cast<std::int64_t>(sizeof(T)) >= streamed_bytes ? Store::streamed : Store::cached;
  T* const outs[] = {out.data()};
  ordered_sum<T>(streams, WrappedBias<T>(bias.data(), N), 0, L, outs, store);
}

template void reduce_partials<float>(View<const float, 3>, View<const float, 1>, View<float, 2>);
template void reduce_partials<f16>(View<const f16, 3>, View<const f16, 1>, View<f16, 2>);
template void reduce_partials<bf16>(View<const bf16, 3>, View<const bf16, 1>, View<bf16, 2>);

}  // namespace faibench::tp_allreduce_bias_fuse::cpu
