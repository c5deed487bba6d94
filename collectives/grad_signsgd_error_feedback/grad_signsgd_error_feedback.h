// Gradient compression with error feedback: the signatures that all variants share.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "task/task.h"
#include "tensor/view.h"

namespace faibench::grad_signsgd_error_feedback {

using Floats = View<const float, 1>;
using Bytes = View<const std::uint8_t, 1>;
using Layout = View<const std::int64_t, 2>;
using Offsets = View<const std::int64_t, 1>;

/// One step of one rank: c = grad + error; payload = what is sent of it; update = what a receiver makes of payload; new_error = c - update; average = mean of all ranks' updates.
///   grad, error [n]            finite, and so is their sum
///   state [S]                  the sender's own, not used by any variant here: new_state is empty
///   peers, peer_offsets [Q+1]  payloads of the Q other ranks in wire format 1, ascending
///   payload                    at most 4n + 64 bytes, of which payload_bytes count
/// Rejected, before any output is written: nonfinite_grad, nonfinite_error, error_overflow, peer_size, peer_scale, peer_padding. Outputs alias no input. Thread-safe.
namespace reference {
Rejected compress(Floats grad, Floats error, Bytes state, std::int64_t step, Layout layout, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                  View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> new_state, Length& payload_bytes, Length& state_bytes);
}
/// Format 1 in scalar passes.
namespace baseline {
Rejected compress(Floats grad, Floats error, Bytes state, std::int64_t step, Layout layout, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                  View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> new_state, Length& payload_bytes, Length& state_bytes);
}
/// Format 128 (sparse.h).
namespace cpu {
Rejected compress(Floats grad, Floats error, Bytes state, std::int64_t step, Layout layout, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                  View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> new_state, Length& payload_bytes, Length& state_bytes);
Rejected decompress(std::int32_t format, Bytes payload, std::int64_t n, std::int64_t step, Layout layout, View<float, 1> update);
}

/// Format 1, the fast form.
namespace cpu_dense {
Rejected compress(Floats grad, Floats error, Bytes state, std::int64_t step, Layout layout, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                  View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> new_state, Length& payload_bytes, Length& state_bytes);
Rejected decompress(std::int32_t format, Bytes payload, std::int64_t n, std::int64_t step, Layout layout, View<float, 1> update);
}
/// Format 129 (dense.h).
namespace cpu_dense_short {
Rejected compress(Floats grad, Floats error, Bytes state, std::int64_t step, Layout layout, std::int32_t rank, Bytes peers, Offsets peer_offsets, View<std::int32_t, 0> format,
                  View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average, View<float, 1> new_error, View<std::uint8_t, 1> new_state, Length& payload_bytes, Length& state_bytes);
Rejected decompress(std::int32_t format, Bytes payload, std::int64_t n, std::int64_t step, Layout layout, View<float, 1> update);
}

/// Wire format 1: of each block of 4096 elements the scale, f32, then a sign bit an element.
namespace sign_block {
inline constexpr std::int32_t format = 1;
inline constexpr std::int64_t block = 4096;
/// Bytes for n elements.
std::int64_t bytes_of(std::int64_t n);
/// payload has bytes_of(n) bytes.
void decode(std::span<const std::uint8_t> payload, std::span<float> update);
/// Whether a payload for n elements has the form: what is wrong with it, as the contract's code, at the byte `index`.
Rejected check(std::span<const std::uint8_t> payload, std::int64_t n, std::int64_t first_index);
}

/// The contract's rules that need a look at the data, one each.
Rejected check_grad(const TensorRefMap& inputs);
Rejected check_error(const TensorRefMap& inputs);
Rejected check_sum(const TensorRefMap& inputs);
Rejected check_peer_sizes(const TensorRefMap& inputs);
Rejected check_peer_scales(const TensorRefMap& inputs);
Rejected check_peer_padding(const TensorRefMap& inputs);
/// Those on peers in order, on typed inputs of n elements.
Rejected check_peers(Bytes peers, Offsets peer_offsets, std::int64_t n);
/// All of them in order.
Rejected check_data(Floats grad, Floats error, Bytes peers, Offsets peer_offsets);

/// Of one rank: |new_error - (c - update)| within rounding, and format 1 exactly of its form and decoded to `update`. `contraction`: norm of new_error / norm of c.
GateResult check_step_of(const TensorRef& grad, const TensorRef& error, const TensorRefMap& outputs, double& contraction);
/// The largest that it may be.
inline constexpr double most_contraction = 1 + 1e-6;
/// Both.
GateResult check_own(const TensorRef& grad, const TensorRef& error, const TensorRefMap& outputs);
/// The mean of all updates in ascending rank, exact.
GateResult check_average(const TensorRefMap& inputs, const TensorRefMap& outputs);

/// The streams of the many-step gate. `workload`: "standard" (both), "smoke", "gpu".
Stream many_steps();

}  // namespace faibench::grad_signsgd_error_feedback
