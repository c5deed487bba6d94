// Libraries that others wrote for the same products: variants "peer:openblas", "peer:blis", "peer:onednn", shown beside ours, never needed, never scored.
//
// A task lists one variant for each library that this build found:
//
//   template <peers::Library library>
//   void peer(View<const float, 2> A, View<const float, 2> B, View<float, 2> C) {
//     peers::multiply(library, C.extent(0), C.extent(1), A.extent(1), 1, {A.data(), A.extent(1)}, {B.data(), B.extent(1)}, 0, C.data(), C.extent(1));
//   }
//   peers::for_each_library([&]<peers::Library library>() {
//     task.variants.push_back({peers::variant_name(library), Kernel({bind(peer<library>, {"A", "B", "C"})}), "sgemm"});
//   });
//
// Conversions and copies that the library needs belong into the peer's function: they are part of its time.
#pragma once
#include <cstdint>
#include <string>

namespace faibench::peers {

enum class Library { openblas, blis, onednn };

/// Whether this build found it. Whether a machine has it shows at the first call.
bool in_build(Library library);
/// "peer:openblas", ...
std::string variant_name(Library library);

/// The same of cuBLAS, which device.cpp files call through cuda/cublas.h.
bool cublas_in_build();

/// Calls `visit.template operator()<library>()` for every library that this build found.
template <class Visit>
void for_each_library(Visit visit) {
  if (in_build(Library::openblas)) visit.template operator()<Library::openblas>();
  if (in_build(Library::blis)) visit.template operator()<Library::blis>();
  if (in_build(Library::onednn)) visit.template operator()<Library::onednn>();
}

/// A row-major operand: element (i, j) at data[i*stride + j], or, transposed, at data[j*stride + i].
struct Operand {
  const float* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c[M, N] = alpha * a[M, K] @ b[K, N] + beta * c on omp_get_max_threads() threads. With M, N or K of 0 nothing is called: c is scaled by hand.
/// The library is loaded at the first call in this process (it may start threads then). Throws Error(io) where the machine lacks it or a function, Error(bad_input) past its index type.
void multiply(Library library, std::int64_t M, std::int64_t N, std::int64_t K, float alpha, const Operand& a, const Operand& b, float beta, float* c, std::int64_t c_stride);

/// Sum of x[i]*y[i] (sdot; oneDNN has none and multiplies 1 x n by n x 1).
float dot(Library library, std::int64_t n, const float* x, const float* y);

}  // namespace faibench::peers
