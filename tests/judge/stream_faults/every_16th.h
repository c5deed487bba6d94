// A right submission for grad_signsgd_error_feedback, in a format of its own: of 16 elements that one as it is whose turn it is at this step. The files beside it change one thing each.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "judge/submission.h"

namespace every_16th {

constexpr int64_t period = 16;

/// Tensors by name.
struct Tensors {
  const faibench_tensor* list;
  int32_t count;
  const faibench_tensor& operator[](std::string_view name) const {
    for (int32_t i = 0; i < count; ++i)
      if (list[i].name == name) return list[i];
    return list[0];
  }
  int32_t place(std::string_view name) const { return static_cast<int32_t>(&(*this)[name] - list); }
  template <class T>
  T* data(std::string_view name) const { return static_cast<T*>((*this)[name].data); }
};

inline int reject(faibench_reply* reply, const char* code, int64_t index) {
  std::snprintf(reply->code, sizeof reply->code, "%s", code);
  std::snprintf(reply->message, sizeof reply->message, "element %lld", static_cast<long long>(index));
  return 1;
}

/// The rules that the contract leaves to the variant.
inline int check(const Tensors& in, faibench_reply* reply) {
  const int64_t n = in["grad"].extents[0], others = in["peer_offsets"].extents[0] - 1;
  const float *grad = in.data<float>("grad"), *error = in.data<float>("error");
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(grad[i])) return reject(reply, "nonfinite_grad", i);
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(error[i])) return reject(reply, "nonfinite_error", i);
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(grad[i] + error[i])) return reject(reply, "error_overflow", i);
  const int64_t* offsets = in.data<int64_t>("peer_offsets");
  const uint8_t* peers = in.data<uint8_t>("peers");
  int64_t bytes = 0;
  for (int64_t first = 0; first < n; first += 4096) bytes += 4 + ((n - first < 4096 ? n - first : 4096) + 7) / 8;
  for (int64_t q = 0; q < others; ++q)
    if (offsets[q + 1] - offsets[q] != bytes) return reject(reply, "peer_size", q);
  for (int64_t q = 0; q < others; ++q)
    for (int64_t at = offsets[q]; at < offsets[q + 1]; at += 516) {
      float scale;
      std::memcpy(&scale, peers + at, 4);
      if (!std::isfinite(scale) || std::signbit(scale)) return reject(reply, "peer_scale", at);
    }
  for (int64_t q = 0; q < others; ++q)
    if (n % 8 != 0 && peers[offsets[q + 1] - 1] >> (n % 8)) return reject(reply, "peer_padding", offsets[q + 1] - 1);
  return 0;
}

inline void expand(const void* payload, int64_t n, int64_t step, float* update) {
  std::memset(update, 0, static_cast<std::size_t>(4 * n));
  const auto* value = static_cast<const unsigned char*>(payload);
  for (int64_t i = step % period; i < n; i += period, value += 4) std::memcpy(update + i, value, 4);
}

/// The whole step; `reply` gets the lengths.
inline int compress(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  const Tensors in{inputs, input_count}, out{outputs, output_count};
  if (const int rejected = check(in, reply)) return rejected;
  const int64_t n = in["grad"].extents[0], step = *in.data<int64_t>("step"), others = in["peer_offsets"].extents[0] - 1;
  const float *grad = in.data<float>("grad"), *error = in.data<float>("error");
  auto* payload = out.data<unsigned char>("payload");
  int64_t bytes = 0;
  for (int64_t i = step % period; i < n; i += period, bytes += 4) {
    const float c = grad[i] + error[i];
    std::memcpy(payload + bytes, &c, 4);
  }
  float *update = out.data<float>("update"), *new_error = out.data<float>("new_error"), *average = out.data<float>("average");
  expand(payload, n, step, update);
  for (int64_t i = 0; i < n; ++i) new_error[i] = grad[i] + error[i] - update[i];
  const int64_t* offsets = in.data<int64_t>("peer_offsets");
  const int32_t rank = *in.data<int32_t>("rank");
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t r = 0; r <= others; ++r) {
      if (r == rank) {
        sum += update[i];
        continue;
      }
      const uint8_t* block = in.data<uint8_t>("peers") + offsets[r < rank ? r : r - 1] + i / 4096 * 516;
      float scale;
      std::memcpy(&scale, block, 4);
      sum += block[4 + i % 4096 / 8] >> (i % 8) & 1 ? -scale : scale;
    }
    average[i] = static_cast<float>(sum / static_cast<double>(others + 1));
  }
  *out.data<int32_t>("format") = 200;
  reply->lengths[out.place("payload")] = bytes;
  reply->lengths[out.place("new_state")] = 0;
  return 0;
}

inline int decompress(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count) {
  const Tensors in{inputs, input_count}, out{outputs, output_count};
  expand(in["payload"].data, *in.data<int64_t>("n"), *in.data<int64_t>("step"), out.data<float>("update"));
  return 0;
}

}  // namespace every_16th
