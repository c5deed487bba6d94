// Row chunks of a tensor in host memory, moved to the device and run through a map: the one signature of all variants.
#pragma once
#include "tensor/view.h"

namespace faibench::h2d_prefetch_compute_overlap {

/// For row h of chunk i and column c: v = scale[i]*data[h, c], one f32 product; then `rounds` times v = silu(gain[c]*v + bias[c]); out[h, c] = v. silu(z) = z/(1 + exp(-z)).
///   data [H, D]      rows of all chunks, one after another; any f32; never written
///   offsets [n+1]    chunk i is rows offsets[i] .. offsets[i+1]-1: from 0, not decreasing, to H; chunks may be empty
///   scale [n]        a factor a chunk; gain, bias [D] a column's; any f32
///   rounds           0 .. 4096
///   out [H, D]       complete when the call returns; separate memory
/// A NaN stays in its element; silu is 0 for large negative z, z for large positive. Within the gate's bound of the f64 result; exact where rounds is 0.
/// Checked before the call: offsets, rounds. Moves 8*H*D bytes. Thread-safe.
using Values = View<const float, 1>;
using Offsets = View<const std::int64_t, 1>;
namespace reference { void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out); }
namespace baseline { void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out); }
namespace cpu { void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out); }

/// The same on a GPU: `data` is memory of the host, page-locked or (slower) pageable; all other tensors are in device memory. Starts after earlier work of cuda::current_stream(); `out` is
/// complete, for any stream and the host, when the call returns. Throws Error(device).
namespace cuda_baseline { void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out); }
namespace cuda { void streamed_chunk_apply(View<const float, 2> data, Offsets offsets, Values scale, Values gain, Values bias, std::int32_t rounds, View<float, 2> out); }

}  // namespace faibench::h2d_prefetch_compute_overlap
