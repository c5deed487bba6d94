// The stream that kernels of this host thread are launched on.
#pragma once
#include <driver_types.h>

namespace faibench::cuda {

namespace detail { inline thread_local cudaStream_t stream = nullptr; }
/// Null, the default stream, unless one was set.
inline cudaStream_t current_stream() { return detail::stream; }
inline void set_current_stream(cudaStream_t stream) { detail::stream = stream; }

}  // namespace faibench::cuda
