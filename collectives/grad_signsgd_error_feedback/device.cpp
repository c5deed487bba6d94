#include "collectives/grad_signsgd_error_feedback/device.h"

#include <string>

#include "collectives/grad_signsgd_error_feedback/segments.h"
#include "task/contract.h"
#include "task/device_variants.h"

namespace faibench::device {
namespace {

namespace task = faibench::grad_signsgd_error_feedback;

Rejected rejected(const std::optional<task::Fault>& fault, std::int64_t n) {
  if (!fault) return std::nullopt;
  const std::string payload = "payload " + std::to_string(fault->payload);
  switch (fault->rule) {
    case task::Fault::Rule::nonfinite_grad: return reject("nonfinite_grad", "grad", fault->index, std::to_string(fault->value), "it must be finite");
    case task::Fault::Rule::nonfinite_error: return reject("nonfinite_error", "error", fault->index, std::to_string(fault->value), "it must be finite");
    case task::Fault::Rule::error_overflow:
      return reject("error_overflow", "error", fault->index, std::to_string(fault->value), "added to grad " + std::to_string(fault->grad) + " it overflows f32");
    case task::Fault::Rule::peer_size:
      return reject("peer_size", "peer_offsets", fault->payload + 1, std::to_string(fault->index),
                    payload + " does not have the " + std::to_string(task::payload_bytes_of(n)) + " bytes that " + std::to_string(n) + " elements need");
    case task::Fault::Rule::peer_scale:
      return reject("peer_scale", "peers", fault->index, std::to_string(fault->value), "a scale of " + payload + " must be finite and without sign bit");
    case task::Fault::Rule::peer_padding:
      return reject("peer_padding", "peers", fault->index, std::to_string(fault->byte), "bits past the last element of " + payload + " must be 0");
  }
  return std::nullopt;
}

template <auto compress, std::int32_t wire_format>
Rejected call(View<const float, 1> grad, View<const float, 1> error, std::int32_t rank, View<const std::uint8_t, 1> peers, View<const std::int64_t, 1> peer_offsets,
              View<std::int32_t, 0> format, View<std::uint8_t, 1> payload, View<float, 1> update, View<float, 1> average,
              View<float, 1> new_error, Length& payload_bytes, Length& state_bytes) {
  if (auto bad = rejected(compress(grad, error, rank, peers, peer_offsets, payload, update, average, new_error, payload_bytes.value), grad.size())) return bad;
  format() = wire_format;  // scalars are the host's
  state_bytes.value = 0;
  return std::nullopt;
}

}  // namespace

std::vector<DeviceVariant> grad_signsgd_error_feedback() {
  const std::vector<std::string> names = {"grad", "error", "rank", "peers", "peer_offsets", "format", "payload", "update", "average", "new_error", "B", "Z"};
  return {{"cuda_baseline", Kernel({bind(call<task::cuda_baseline::compress, 1>, names)})},
          {"cuda_dense", Kernel({bind(call<task::cuda_dense::compress, 1>, names)})},
          {"cuda", Kernel({bind(call<task::cuda::compress, task::segments::format>, names)})}};
}

}  // namespace faibench::device
