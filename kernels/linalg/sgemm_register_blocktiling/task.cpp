// sgemm_register_blocktiling: contract, reference, workloads, floor. The gate is in gate.cpp, the inputs in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/linalg/sgemm_register_blocktiling/gate.h"
#include "kernels/linalg/sgemm_register_blocktiling/inputs.h"
#include "kernels/linalg/sgemm_register_blocktiling/sgemm_register_blocktiling.h"
#include "peers/blas.h"

namespace faibench {
namespace sgemm_register_blocktiling {

// The definition in f64, a row of D at a time, rounded once.
void reference::sgemm(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  const std::int64_t M = D.extent(0), N = D.extent(1), K = A.extent(1);
  const bool product = alpha != 0 && K > 0;
  std::vector<double> row(static_cast<std::size_t>(N));
  for (std::int64_t i = 0; i < M; ++i) {
    row.assign(static_cast<std::size_t>(N), 0.0);
    for (std::int64_t k = 0; product && k < K; ++k)
      for (std::int64_t j = 0; j < N; ++j) row[static_cast<std::size_t>(j)] += static_cast<double>(A(i, k)) * static_cast<double>(B(k, j));
    for (std::int64_t j = 0; j < N; ++j) {
      const double scaled = product ? static_cast<double>(alpha) * row[static_cast<std::size_t>(j)] : 0.0;
      D(i, j) = static_cast<float>(beta == 0 ? scaled : scaled + static_cast<double>(beta) * static_cast<double>(C(i, j)));
    }
  }
}

namespace {

/// BLAS adds to what the result holds: C is copied there first.
template <peers::Library library>
void peer(View<const float, 2> A, View<const float, 2> B, View<const float, 2> C, float alpha, float beta, View<float, 2> D) {
  if (beta != 0) std::ranges::copy(C.flat(), D.data());
  peers::multiply(library, D.extent(0), D.extent(1), alpha == 0 ? 0 : A.extent(1), alpha, {A.data(), A.extent(1)}, {B.data(), B.extent(1)}, beta, D.data(), D.extent(1));
}

Workload workload(std::string name, std::string description, const Sizes& sizes, double seconds) {
  return {std::move(name), std::move(description), {[sizes](Random& random) { return uniform_inputs(random, sizes); }}, seconds, {[sizes](Random& random) { return exact_inputs(random, sizes); }}};
}

Task make() {
  Task task;
  task.name = "sgemm_register_blocktiling";
  task.group = "linalg";
  task.summary = "Single-precision matrix multiply, alpha*A@B + beta*C";
  task.semantics =
      "D[i, j] = alpha * sum_k A[i, k]*B[k, j] + beta*C[i, j], sums in f32 in any order. beta = 0: C is not read. alpha = 0 or K = 0: A and B are not read, D = beta*C. "
      "Otherwise IEEE: NaN and Inf stay in their row of A, column of B, element of C. Subnormal results may be flushed.";
  task.contract.input("A", {Dtype::f32}, {"M", "K"}, "activations", "any f32");
  task.contract.input("B", {Dtype::f32}, {"K", "N"}, "weights", "any f32");
  task.contract.input("C", {Dtype::f32}, {"M", "N"}, "addend; always present, even when beta is 0", "any f32");
  task.contract.input("alpha", {Dtype::f32}, {}, "scale of the product", "any f32");
  task.contract.input("beta", {Dtype::f32}, {}, "scale of C", "any f32");
  task.contract.output("D", {Dtype::f32}, {"M", "N"}, "the result; separate memory, C stays unchanged");
  const std::vector<std::string> names = {"A", "B", "C", "alpha", "beta", "D"};
  task.variants = {
      {"reference", Kernel({bind(reference::sgemm, names)}), "the definition in f64, rounded once"},
      {"baseline", Kernel({bind(baseline::sgemm, names)}), "one f32 sum an element, B read down its columns"},
      {"cpu", Kernel({bind(cpu::sgemm, names)}), "packed panels, 14x32 sums in registers, every thread its own part of D from packing to finishing"},
      on_device("cuda_baseline", "one thread an element, columns of D along a warp"),
      on_device("cuda", "128x128x16 tiles through shared memory, 8x8 sums a thread, cp.async"),
  };
  peers::for_each_library([&]<peers::Library library>() { task.variants.push_back({peers::variant_name(library), Kernel({bind(peer<library>, names)}), "its sgemm, on a copy of C"}); });
  if (peers::cublas_in_build()) task.variants.push_back(on_device("peer:cublas", "its sgemm, TF32 off, on a copy of C"));
  const std::string uniform = "A, B, C uniform [-1,1), alpha 1.25, beta -0.5; also gated on the fill exact (integers)", reported = "; reported, not scored";
  task.workloads = {
      workload("smoke", "M, N, K = 65, 97, 130; " + uniform, {65, 97, 130}, 0.001),
      workload("standard", "M, N, K = 256, 1024, 1024; " + uniform, {256, 1024, 1024}, 1),
      workload("gpu", "M, N, K = 4096, 4096, 4096; " + uniform, {4096, 4096, 4096}, 400),
      workload("one_row", "M, N, K = 1, 4096, 4096; " + uniform + reported, {1, 4096, 4096}, 0.1),
      workload("seven_rows", "M, N, K = 7, 11008, 4096; " + uniform + reported, {7, 11008, 4096}, 3),
      workload("square", "M, N, K = 1000, 1000, 1000; " + uniform + reported, {1000, 1000, 1000}, 1.5),
  };
  task.cases = cases();
  task.random_case = random_inputs;
  task.gate.text =
      "`D`: |D - ref| <= u*((K+8)*|alpha|*S + 4*|beta*C|) + 2^-126 with ref and S = |A|@|B| in f64, u = 2^-24; where row, column, C, alpha and beta are integers and "
      "|alpha|*S + |beta*C| <= 2^24, D == ref; NaN where and only where ref is NaN, Inf of the same sign; finite data of magnitude 2^127 and more is not compared";
  task.gate.check = check_product;
  task.gate.baseline_is_expected = false;
  task.gate.needs_expected = false;
  task.floor = [](const TensorRefMap& inputs) {
    const double M = static_cast<double>(inputs.at("A").shape[0]), K = static_cast<double>(inputs.at("A").shape[1]), N = static_cast<double>(inputs.at("B").shape[1]);
    const bool product = inputs.at("alpha").scalar<float>() != 0 && K > 0, addend = inputs.at("beta").scalar<float>() != 0;
    return Floor{4 * ((product ? M * K + K * N : 0) + M * N * (addend ? 2 : 1)), product ? 2 * M * N * K : 0};
  };
  task.floor_text = "2*M*N*K operations; 4*(M*K + K*N + 2*M*N) bytes, without C where beta is 0";
  return task;
}

}  // namespace
}  // namespace sgemm_register_blocktiling

namespace tasks {
const Task& sgemm_register_blocktiling() {
  static const Task task = faibench::sgemm_register_blocktiling::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
