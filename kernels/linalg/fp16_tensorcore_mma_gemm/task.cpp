// fp16_tensorcore_mma_gemm: contract, reference, workloads, floor. Inputs and fixed cases are in cases.cpp, the gate in gate.cpp.
#include "task/task.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/linalg/fp16_tensorcore_mma_gemm/fp16_tensorcore_mma_gemm.h"
#include "kernels/linalg/fp16_tensorcore_mma_gemm/gate.h"
#include "kernels/linalg/fp16_tensorcore_mma_gemm/inputs.h"
#include "kernels/linalg/fp16_tensorcore_mma_gemm/peer.h"

namespace faibench {
namespace fp16_tensorcore_mma_gemm {

void reference::gemm(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) {
  const std::int64_t M = C.extent(0), N = C.extent(1), K = A.extent(1);
  std::vector<double> row(static_cast<std::size_t>(N));
  for (std::int64_t i = 0; i < M; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t j = 0; j < N; ++j) row[static_cast<std::size_t>(j)] += static_cast<double>(to_float(A(i, k))) * static_cast<double>(to_float(B(k, j)));
    for (std::int64_t j = 0; j < N; ++j) C(i, j) = round_to<f16>(row[static_cast<std::size_t>(j)]);
  }
}

namespace {

template <peers::Library library>
void gemm_of(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) { peer::gemm(library, A, B, C); }

Workload workload(std::string name, std::string description, const Sizes& sizes, TensorMap (*fill)(Random&, const Sizes&), double seconds) {
  return {std::move(name), std::move(description), {[sizes, fill](Random& random) { return fill(random, sizes); }}, seconds, {[sizes](Random& random) { return exact_inputs(random, sizes); }}};
}

Task make() {
  Task task;
  task.name = "fp16_tensorcore_mma_gemm";
  task.group = "linalg";
  task.summary = "Half-precision matrix multiply with f32 accumulation";
  task.semantics =
      "C[i, j] = f16(sum_k f32(A[i, k]) * f32(B[k, j])): exact products, an f32 accumulator, any order and any split of the sum, one rounding to nearest even at the end. "
      "From 65520 on Inf; subnormal inputs count with their value; NaN and Inf stay in their row of A and column of B. K = 0 gives zeros.";
  task.contract.input("A", {Dtype::f16}, {"M", "K"}, "activations", "any f16, subnormals, Inf, NaN included; K <= 2^20");
  task.contract.input("B", {Dtype::f16}, {"K", "N"}, "weights", "any f16, subnormals, Inf, NaN included");
  task.contract.output("C", {Dtype::f16}, {"M", "N"}, "the product, rounded once to f16");
  task.variants = {
      {"reference", Kernel({bind(reference::gemm, {"A", "B", "C"})}), "the definition in f64, row after row"},
      {"baseline", Kernel({bind(baseline::gemm, {"A", "B", "C"})}), "one f32 sum an element, both factors converted in the innermost loop"},
      {"cpu", Kernel({bind(cpu::gemm, {"A", "B", "C"})}), "an f32 product in packed panels and a register tile: f16 becomes f32 while packing, sums become f16 as a tile is finished"},
      on_device("cuda_baseline", "one thread an element, scalar f16 loads, f32 FMA; Tensor Cores unused"),
      on_device("cuda", "mma.sync on 128x128x32 tiles: cp.async in four stages, swizzled shared memory, ldmatrix, split K in f32 where tiles are few"),
  };
  peers::for_each_library([&]<peers::Library library>() {
    task.variants.push_back({peers::variant_name(library), Kernel({bind(gemm_of<library>, {"A", "B", "C"})}), "sgemm on f32 copies, conversions included"});
  });
  if (peers::cublas_in_build()) task.variants.push_back(on_device("peer:cublas", "its GemmEx with f32 sums, no reduction in f16"));
  const std::string normal = "A normal(0,1), B normal(0,1)/sqrt(K), rounded to f16", reported = "; reported, not scored";
  task.workloads = {
      workload("smoke", "M, N, K = 65, 97, 136; uniform [-1,1) rounded to f16", {65, 97, 136}, uniform_inputs, 0.002),
      workload("standard", "M, N, K = 256, 1024, 1024; " + normal, {256, 1024, 1024}, normal_inputs, 0.5),
      workload("gpu", "M, N, K = 4096, 4096, 4096; " + normal, {4096, 4096, 4096}, normal_inputs, 150),
      workload("one_row", "M, N, K = 1, 4096, 4096; " + normal + reported, {1, 4096, 4096}, normal_inputs, 0.06),
      workload("few_rows", "M, N, K = 17, 11008, 4096; " + normal + reported, {17, 11008, 4096}, normal_inputs, 2),
      workload("odd", "M, N, K = 4095, 4097, 1001; " + normal + reported, {4095, 4097, 1001}, normal_inputs, 40),
  };
  task.cases = cases();
  task.random_case = random_inputs;
  task.gate = gate();
  task.floor = [](const TensorRefMap& inputs) {
    const double M = static_cast<double>(inputs.at("A").shape[0]), K = static_cast<double>(inputs.at("A").shape[1]), N = static_cast<double>(inputs.at("B").shape[1]);
    return Floor{2 * (M * K + K * N + M * N), 2 * M * N * K};
  };
  task.floor_text = "2*M*N*K operations; 2*(M*K + K*N + M*N) bytes: A and B read once, C written once";
  return task;
}

}  // namespace
}  // namespace fp16_tensorcore_mma_gemm

namespace tasks {
const Task& fp16_tensorcore_mma_gemm() {
  static const Task task = faibench::fp16_tensorcore_mma_gemm::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
