// Gradient compression on a GPU.
#pragma once
#include <cstdint>
#include <optional>

#include "tensor/view.h"

namespace faibench::grad_signsgd_error_feedback {

/// What is wrong with an input, and where. `rank`: of the payload among the peers'.
struct Fault {
  enum class Rule { nonfinite_grad, nonfinite_error, error_overflow, peer_size, peer_scale, peer_padding };
  Rule rule;
  std::int64_t index;
  float value = 0, grad = 0;  ///< of grad, error (and the grad it is added to), or a scale
  std::int64_t payload = 0;
  std::uint8_t byte = 0;      ///< with padding
};

/// Bytes of wire format 1 for n elements.
constexpr std::int64_t payload_bytes_of(std::int64_t n) { return (n + 4095) / 4096 * 4 + (n + 7) / 8; }

/// compress as in grad_signsgd_error_feedback.h, but for the outputs on the host: cuda_baseline and cuda_dense in wire format 1, cuda in 130 (segments.h). The views point into
/// device memory, `peer_offsets` into the host's. The kernels run on cuda::current_stream(), which is waited for. Where a fault is returned nothing was written.
/// Throws Error(device).
namespace cuda_baseline {
std::optional<Fault> compress(View<const float, 1> grad, View<const float, 1> error, std::int32_t rank, View<const std::uint8_t, 1> peers,
                              View<const std::int64_t, 1> peer_offsets, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
                              View<float, 1> new_error, std::int64_t& payload_bytes);
}
namespace cuda_dense {
std::optional<Fault> compress(View<const float, 1> grad, View<const float, 1> error, std::int32_t rank, View<const std::uint8_t, 1> peers,
                              View<const std::int64_t, 1> peer_offsets, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
                              View<float, 1> new_error, std::int64_t& payload_bytes);
}
namespace cuda {
std::optional<Fault> compress(View<const float, 1> grad, View<const float, 1> error, std::int32_t rank, View<const std::uint8_t, 1> peers,
                              View<const std::int64_t, 1> peer_offsets, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
                              View<float, 1> new_error, std::int64_t& payload_bytes);
}

}  // namespace faibench::grad_signsgd_error_feedback
