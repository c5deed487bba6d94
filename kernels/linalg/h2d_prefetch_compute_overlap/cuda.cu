// Pieces of the tensor, whatever its chunks, are copied one after another straight into `out` and computed there in place while the next are on their way:
//
//   copying        piece 0 | piece 1 | piece 2 | piece 3 | ...          back to back: the copy engine never waits
//   computing[0]             kernel 0            kernel 2  ...          each held by an event behind its own copy
//   computing[1]                       kernel 1            kernel 3     two, so that the last blocks of one kernel share the device with the first of the next
//
// No staging, no third copy, and the host waits once, at the end. A kernel finds the chunk of its rows in `offsets` on the device, so the host never asks for them, a huge chunk is split
// and small ones are joined. A thread takes four neighbouring elements through all rounds in registers. Pageable `data` goes through two page-locked buffers, which the host fills while the
// other is copied: the driver's own staging is neither asynchronous nor, on these streams, ordered.
// Bound: max(4*H*D / bandwidth of the bus, rounds * H*D * 2 special functions / 16 a cycle and multiprocessor), and the first copy.
//   map_piece   80 to 90 % of the special functions' rate on sm_80 and sm_90: 2 of them a round and element (exp2, reciprocal) beside some 10 other instructions; four chains a thread and
//               about 30 registers leave 2048 threads a multiprocessor. At 96 rounds an H100 takes 15 ms for 1 GiB, less than the 20 ms of the copy.
//   whole       97 % of the bus, because a piece is at most a 64th of the tensor: the first copy and the last kernel are what does not overlap.
#include "cuda/kernel.h"
#include "cuda/runtime.h"
#include "cuda/vector.h"
#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace faibench::h2d_prefetch_compute_overlap {
namespace {

using Size = std::int64_t;
constexpr int threads = 256;
// Setting up a copy and a launch costs about 10 us, the time in which PCIe 5 moves 512 KiB: pieces are at least half as large. Beyond 4 MiB nothing gets better.
constexpr Size least_piece = Size{64} << 10, most_piece = Size{1} << 20;  // elements

/// What is the same for every piece.
struct Map {
  const Size* offsets;
  const float *scale, *gain, *bias;
  Size chunks, D;
  int rounds;
};

/// The last i with offsets[i] <= row: the chunk that holds it.
__device__ Size chunk_of(const Size* offsets, Size chunks, Size row) {
  Size low = 0, high = chunks;
  while (high - low > 1) {
    const Size middle = (low + high) / 2;
    if (offsets[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

/// z / (1 + exp(-z)) with the exp of -|z| alone, which cannot overflow; the fast division is right for denominators from 1 to 2.
__device__ float silu(float z) {
  const float e = __expf(-fabsf(z));
  return __fdividef(z >= 0 ? z : z * e, 1.0f + e);
}

/// Elements first .. last-1 of all lie in `v`, from v[0] on, and are mapped in place. `count`: neighbours that a thread takes; D is a multiple of it, and so is `first`.
template <int count>
__global__ void __launch_bounds__(threads) map_piece(float* v, Map map, Size first, Size last) {
  const Size at = (Size{blockIdx.x} * threads + threadIdx.x) * count;
  if (at >= last - first) return;
  const Size row = (first + at) / map.D, column = (first + at) % map.D;
  const float scale = map.scale[chunk_of(map.offsets, map.chunks, row)];
  float x[count], gain[count], bias[count];
  if constexpr (count == 4) {
    const float4 four = *reinterpret_cast<const float4*>(v + at);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else {
    x[0] = v[at];
  }
#pragma unroll
  for (int k = 0; k < count; ++k) {
    x[k] = scale * x[k];
    gain[k] = map.gain[column + k];
    bias[k] = map.bias[column + k];
  }
  for (int round = 0; round < map.rounds; ++round)
#pragma unroll
    for (int k = 0; k < count; ++k) x[k] = silu(fmaf(gain[k], x[k], bias[k]));
  if constexpr (count == 4) *reinterpret_cast<float4*>(v + at) = make_float4(x[0], x[1], x[2], x[3]);
  else v[at] = x[0];
}

/// One thread an element, one chunk a launch.
__global__ void map_chunk(float* v, const float* scale, const float* gain, const float* bias, int rounds, Size D, Size count) {
  const Size at = Size{blockIdx.x} * threads + threadIdx.x;
  if (at >= count) return;
  const Size column = at % D;
  float x = *scale * v[at];
  for (int round = 0; round < rounds; ++round) x = silu(fmaf(gain[column], x, bias[column]));
  v[at] = x;
}

unsigned blocks(Size elements, Size a_thread = 1) { return static_cast<unsigned>((elements + a_thread * threads - 1) / (a_thread * threads)); }
std::size_t bytes(Size elements) { return static_cast<std::size_t>(elements) * sizeof(float); }

/// Page-locked buffers that pageable data goes through, filled by the host while the other is on its way.
class Bounce {
 public:
  explicit Bounce(Size elements) : buffers_{faibench::cuda::HostBuffer(bytes(elements)), faibench::cuda::HostBuffer(bytes(elements))} {}
  void copy(float* to, const float* from, Size elements, cudaStream_t stream) {
    const float* const filled = fill(from, elements);
    faibench::cuda::copy(to, filled, bytes(elements), stream);
    sent_[next_].record(stream);
    next_ = 1 - next_;
  }

 private:
  const float* fill(const float* from, Size elements) {
    sent_[next_].wait();  // the copy before the last has left this buffer
    std::memcpy(buffers_[next_].data<float>(), from, bytes(elements));
    return buffers_[next_].data<float>();
  }
  faibench::cuda::HostBuffer buffers_[2];
  faibench::cuda::Event sent_[2];
  int next_ = 0;
};

}  // namespace

void cuda_baseline::streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out) {
  if (data.empty()) return;
  const cudaStream_t stream = faibench::cuda::current_stream();
  const Size chunks = scale.extent(0), D = data.extent(1);
  std::vector<Size> first(static_cast<std::size_t>(chunks + 1));
  faibench::cuda::copy(first.data(), offsets.data(), first.size() * sizeof(Size), stream);
  faibench::cuda::synchronize(stream);
  Size largest = 0;
  for (std::size_t i = 0; i + 1 < first.size(); ++i) largest = std::max(largest, (first[i + 1] - first[i]) * D);
  const faibench::cuda::Workspace buffer(bytes(largest));
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    const Size at = first[i] * D, count = first[i + 1] * D - at;
    if (count == 0) continue;
    faibench::cuda::copy(buffer.data<float>(), data.data() + at, bytes(count), stream);
    faibench::cuda::synchronize(stream);
    faibench::cuda::launch("map_chunk", map_chunk, {blocks(count), threads}, buffer.data<float>(), scale.data() + i, gain.data(), bias.data(), rounds, D, count);
    faibench::cuda::synchronize(stream);
    faibench::cuda::copy(out.data() + at, buffer.data<float>(), bytes(count), stream);
    faibench::cuda::synchronize(stream);
  }
}

void cuda::streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out) {
  if (data.empty()) return;
  const Map map{offsets.data(), scale.data(), gain.data(), bias.data(), scale.extent(0), data.extent(1), rounds};
  const bool by_four = faibench::cuda::aligned(out.data(), map.D);
  const Size total = data.size(), piece = std::clamp((total / 64 + 3) / 4 * 4, least_piece, most_piece);
  std::optional<Bounce> bounce;
  if (!faibench::cuda::page_locked(data.data())) bounce.emplace(std::min(piece, total));

  const cudaStream_t stream = faibench::cuda::current_stream();
  const faibench::cuda::Stream copying, computing[2];
  faibench::cuda::Event before, copied, done;
  before.record(stream);  // whoever used `out` or made the parameters; the kernels come after a copy, and so after it too
  before.hold(copying.get());
  for (Size first = 0, number = 0; first < total; first += piece, ++number) {
    const Size last = std::min(first + piece, total);
    float* const part = out.data() + first;
    if (bounce) bounce->copy(part, data.data() + first, last - first, copying.get());
    else faibench::cuda::copy(part, data.data() + first, bytes(last - first), copying.get());
    const cudaStream_t here = computing[number % 2].get();
    copied.record(copying.get());
    copied.hold(here);
    const faibench::cuda::OnStream on(here);
    if (by_four) faibench::cuda::launch("map_piece", map_piece<4>, {blocks(last - first, 4), threads}, part, map, first, last);
    else faibench::cuda::launch("map_piece", map_piece<1>, {blocks(last - first), threads}, part, map, first, last);
  }
  for (const auto& one : computing) {
    done.record(one.get());
    done.hold(stream);
  }
  faibench::cuda::synchronize(stream);
}

}  // namespace faibench::h2d_prefetch_compute_overlap
