// The one-process form on a GPU.
#pragma once
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench::tp_allreduce_bias_fuse {

/// reduce_partials as in tp_allreduce_bias_fuse.h: ascending p in f32, bias last, one rounding. The views point into device memory, the kernels run on
/// cuda::current_stream(). Throws Error(device).
namespace cuda_baseline { template <class T> void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out); }
namespace cuda { template <class T> void reduce_partials(View<const T, 3> partials, View<const T, 1> bias, View<T, 2> out); }

}  // namespace faibench::tp_allreduce_bias_fuse
