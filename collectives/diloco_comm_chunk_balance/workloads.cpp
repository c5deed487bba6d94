#include "collectives/diloco_comm_chunk_balance/workloads.h"

#include <cmath>

namespace faibench::diloco_comm_chunk_balance {
namespace {

constexpr std::int64_t bf16_bytes = 2;

std::vector<std::int64_t> in_bytes(std::vector<std::int64_t> parameters) {
  for (std::int64_t& size : parameters) size *= bf16_bytes;
  return parameters;
}

std::vector<std::int64_t> mixtral_sizes() {
  constexpr std::int64_t h = 4096, vocabulary = 32000;
  std::vector<std::int64_t> p = {vocabulary * h};
  for (int layer = 0; layer < 32; ++layer) {
    for (const std::int64_t size : {h, h * h, 1024 * h, 1024 * h, h * h, h, 8 * h}) p.push_back(size);
    p.insert(p.end(), 24, 14336 * h);
  }
  p.insert(p.end(), {h, vocabulary * h});
  return in_bytes(std::move(p));
}

Generator fixed(std::vector<std::int64_t> sizes, std::int32_t chunks) {
  return [sizes = std::move(sizes), chunks](Random&) { return instance(sizes, chunks); };
}

}  // namespace

TensorMap instance(std::vector<std::int64_t> sizes, std::int32_t chunks) {
  TensorMap inputs;
  const auto n = static_cast<std::int64_t>(sizes.size());
  inputs.add("sizes", Tensor::of({n}, sizes));
  inputs.add("chunks", Tensor::scalar(chunks));
  return inputs;
}

std::vector<std::int64_t> gpt_sizes(std::int64_t layers, std::int64_t h) {
  std::vector<std::int64_t> p = {50257 * h, 2048 * h};
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (const std::int64_t size : {h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h}) p.push_back(size);
  p.insert(p.end(), {h, h});
  return in_bytes(std::move(p));
}

std::vector<std::int64_t> llama_sizes(std::int64_t layers, std::int64_t h) {
  std::vector<std::int64_t> p = {128256 * h};
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (const std::int64_t size : {h, h * h, 1024 * h, 1024 * h, h * h, h, 28672 * h, 28672 * h, 28672 * h}) p.push_back(size);
  p.insert(p.end(), {h, 128256 * h});
  return in_bytes(std::move(p));
}

std::vector<std::int64_t> cut_in_three(Random& random, std::int32_t chunks) {
  constexpr std::int64_t whole = std::int64_t{1} << 30;
  std::vector<std::int64_t> sizes;
  for (std::int32_t c = 0; c < chunks; ++c) {
    const double first = random.uniform(0.2, 0.45), second = random.uniform(0.25, 0.85 - first);
    const auto a = static_cast<std::int64_t>(first * static_cast<double>(whole)), b = static_cast<std::int64_t>(second * static_cast<double>(whole));
    sizes.insert(sizes.end(), {a, b, whole - a - b});
  }
  random.shuffle(sizes);
  return sizes;
}

std::vector<Workload> workloads() {
  const auto gpt = gpt_sizes(96, 12288), llama = llama_sizes(80, 8192);
  return {
      {"smoke", "12 tensors per layer x 4 layers (h = 256), P = 4", {fixed(gpt_sizes(4, 256), 4)}, 1e-6},
      {"standard",
       "six instances, their geometric mean: GPT-3 175B shape, P = 24 and 12; Llama-3-70B shape, P = 27, 36 and 18; 64 chunks of 2^30 bytes cut in 3 parts and shuffled, P = 64",
       {fixed(gpt, 24), fixed(gpt, 12), fixed(llama, 27), fixed(llama, 36), fixed(llama, 18), [](Random& random) { return instance(cut_in_three(random, 64), 64); }},
       1e-5},
      {"moe", "Mixtral-like: embedding, 32 layers with 24 expert tensors, norm, head; P = 62", {fixed(mixtral_sizes(), 62)}, 1e-5},
      {"many", "200000 tensors, sizes floor(exp(normal(10, 2.5))), P = 256 (for time)",
       {[](Random& random) {
         std::vector<std::int64_t> sizes(200000);
         for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(std::floor(stable_exp(10 + 2.5 * random.normal())));
         return instance(std::move(sizes), 256);
       }},
       1e-3},
  };
}

}  // namespace faibench::diloco_comm_chunk_balance
