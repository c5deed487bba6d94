// splitk_tall_skinny_gemm: contract, reference, workloads, floor. Gate and fills are in gate.cpp, fixed cases in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/linalg/splitk_tall_skinny_gemm/cases.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/gate.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/ranks.h"
#include "kernels/linalg/splitk_tall_skinny_gemm/splitk_tall_skinny_gemm.h"
#include "peers/blas.h"

namespace faibench {
namespace splitk_tall_skinny_gemm {

void reference::multiply(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  for (std::int64_t i = 0; i < C.extent(0); ++i)
    for (std::int64_t j = 0; j < C.extent(1); ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < A.extent(1); ++k) sum += static_cast<double>(A(i, k)) * static_cast<double>(B(k, j));
      C(i, j) = static_cast<float>(sum);
    }
}

namespace {

// Over equal terms the library's f32 chains drift by about a fifth of a unit a term, past the gate when they run along all of K: it gets as many at a time as keep the bound, 8448 of 2^20.
template <peers::Library library>
void peer(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
  const std::int64_t K = A.extent(1), N = C.extent(1), segment = 256 + 8 * static_cast<std::int64_t>(std::sqrt(static_cast<double>(K)));
  std::vector<double> sums(K > segment ? static_cast<std::size_t>(C.size()) : 0);
  for (std::int64_t first = 0; first == 0 || first < K; first += segment) {
    peers::multiply(library, C.extent(0), N, std::min(segment, K - first), 1, {A.data() + first, K}, {B.data() + first * N, N}, 0, C.data(), N);
    for (std::size_t e = 0; e < sums.size(); ++e) sums[e] += static_cast<double>(C.flat()[e]);
  }
  std::ranges::transform(sums, C.data(), [](double sum) { return static_cast<float>(sum); });
}

Workload workload(std::string name, std::string description, std::int64_t M, std::int64_t N, std::int64_t K, double seconds) {
  Workload w{std::move(name), std::move(description), {[=](Random& random) { return uniform(random, M, N, K); }}, seconds};
  w.also_gated = {[=](Random& random) { return exact(random, M, N, K); }};
  return w;
}

Task make() {
  Task task;
  task.name = "splitk_tall_skinny_gemm";
  task.group = "linalg";
  task.summary = "Matrix product of few rows and columns over very many terms";
  task.semantics = "C[i, j] = sum over k of A[i, k] * B[k, j], any split of K and any order, partial sums in f32 or better, rounded to f32. K = 0 gives zeros.";
  task.contract.input("A", {Dtype::f32}, {"M", "K"}, "left factor", "any f32");
  task.contract.input("B", {Dtype::f32}, {"K", "N"}, "right factor", "any f32");
  task.contract.output("C", {Dtype::f32}, {"M", "N"}, "the product");
  const std::vector<std::string> names = {"A", "B", "C"};
  task.variants = {
      {"reference", Kernel({bind(reference::multiply, names)}), "the definition in f64"},
      {"baseline", Kernel({bind(baseline::multiply, names)}), "element by element, one f64 accumulator over k ascending"},
      {"cpu", Kernel({bind(cpu::multiply, names)}), "K over threads, blocks of 1024 terms with C in registers, the next block called for meanwhile"},
      on_device("cuda_baseline", "one thread an output, one f64 accumulator over all of K"),
      on_device("cuda", "K over the multiprocessors, partial tiles to a workspace, summed by the block that comes last"),
  };
  peers::for_each_library([&]<peers::Library library>() { task.variants.push_back({peers::variant_name(library), Kernel({bind(peer<library>, names)}), "its sgemm, some thousand terms at a time"}); });
  if (peers::cublas_in_build()) task.variants.push_back(on_device("peer:cublas", "its sgemm, TF32 off"));
  task.workloads = {
      workload("smoke", "5 x 7 over 20011 terms, uniform [-1,1); gated on integers too", 5, 7, 20011, 1e-3),
      workload("standard", "16 x 16 over 1048576 terms, uniform [-1,1); gated on integers too", 16, 16, 1 << 20, 0.7),
      workload("gpu", "16 x 16 over 4194304 terms, uniform [-1,1); gated on integers too", 16, 16, 1 << 22, 2.8),
      workload("dot", "1 x 1 over 2^24 terms, uniform [-1,1); gated on integers too; reported, not scored", 1, 1, 1 << 24, 0.02),
      workload("row", "1 x 64 over 2^20 terms, uniform [-1,1); gated on integers too; reported, not scored", 1, 64, 1 << 20, 0.5),
      workload("square", "64 x 64 over 65536 terms, uniform [-1,1); gated on integers too; reported, not scored", 64, 64, 1 << 16, 0.5),
      workload("column", "32 x 1 over 1000003 terms, uniform [-1,1); gated on integers too; reported, not scored", 32, 1, 1000003, 0.05),
  };
  task.cases = cases();
  task.random_case = [](Random& random) {
    const auto extent = [&] { return random.chance(0.2) ? random.between(17, 70) : random.between(0, 17); };
    const std::int64_t M = extent(), N = extent(), K = random.chance(0.3) ? random.between(0, 30) : random.between(0, 3000) / (1 + M * N / 300);
    return random.chance(0.3) ? exact(random, M, N, K) : uniform(random, M, N, K);
  };
  task.gate = gate();
  task.floor = [](const TensorRefMap& inputs) {
    const double M = static_cast<double>(inputs.at("A").shape[0]), K = static_cast<double>(inputs.at("A").shape[1]), N = static_cast<double>(inputs.at("B").shape[1]);
    return Floor{4 * (K * (M + N) + M * N), 2 * M * N * K};
  };
  task.multi_rank = multi_rank();
  task.floor_text = "4*K*(M+N) bytes read + 4*M*N written, 2*M*N*K operations";
  return task;
}

}  // namespace
}  // namespace splitk_tall_skinny_gemm

namespace tasks {
const Task& splitk_tall_skinny_gemm() {
  static const Task task = faibench::splitk_tall_skinny_gemm::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
