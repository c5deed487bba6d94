#include "peers/blas.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <dlfcn.h>
#include <omp.h>

#include "peers/found.h"
#include "tensor/error.h"

namespace faibench::peers {
namespace {

// Row-major and (no) transposition, as CBLAS numbers them.
constexpr int row_major = 101, plain = 111, transposed = 112;

using CblasSgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using CblasSdot = float (*)(int, const float*, int, const float*, int);
using DnnlSgemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);

std::string_view file_of(Library library) {
  return library == Library::openblas ? found::openblas : library == Library::blis ? found::blis : found::onednn;
}

void* load(Library library) {
  if (!in_build(library)) throw Error(Error::Kind::io, variant_name(library) + ": not found when this program was built");
  void* handle = dlopen(std::string(file_of(library)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw Error(Error::Kind::io, variant_name(library) + ": " + dlerror());
  return handle;
}

template <class Function>
Function function(void* handle, Library library, const char* name) {
  void* const address = dlsym(handle, name);
  if (!address) throw Error(Error::Kind::io, variant_name(library) + ": " + std::string(file_of(library)) + " has no " + name);
  return reinterpret_cast<Function>(address);
}

int as_int(std::int64_t n) {
  if (n > std::numeric_limits<int>::max()) throw Error(Error::Kind::bad_input, "a dimension of " + std::to_string(n) + " is past what a BLAS of 32-bit integers takes");
  return static_cast<int>(n);
}

struct OpenBlas {
  CblasSgemm sgemm;
  CblasSdot sdot;
  void (*set_threads)(int);
};
const OpenBlas& openblas() {
  static const OpenBlas library = [] {
    // Its idle threads spin for 2^26 cycles by default, which would be on the cores of whatever is timed next.
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
    void* const handle = load(Library::openblas);
    return OpenBlas{function<CblasSgemm>(handle, Library::openblas, "cblas_sgemm"), function<CblasSdot>(handle, Library::openblas, "cblas_sdot"),
                    function<void (*)(int)>(handle, Library::openblas, "openblas_set_num_threads")};
  }();
  library.set_threads(omp_get_max_threads());
  return library;
}

struct Blis {
  CblasSgemm sgemm;
  CblasSdot sdot;
  void (*set_threads)(std::int64_t);
};
const Blis& blis() {
  static const Blis library = [] {
    void* const handle = load(Library::blis);
    return Blis{function<CblasSgemm>(handle, Library::blis, "cblas_sgemm"), function<CblasSdot>(handle, Library::blis, "cblas_sdot"),
                function<void (*)(std::int64_t)>(handle, Library::blis, "bli_thread_set_num_threads")};
  }();
  library.set_threads(omp_get_max_threads());
  return library;
}

DnnlSgemm onednn() {  // takes its threads from OpenMP
  static const DnnlSgemm sgemm = function<DnnlSgemm>(load(Library::onednn), Library::onednn, "dnnl_sgemm");
  return sgemm;
}

void multiply_cblas(CblasSgemm sgemm, std::int64_t M, std::int64_t N, std::int64_t K, float alpha, const Operand& a, const Operand& b, float beta, float* c,
                    std::int64_t c_stride) {
  sgemm(row_major, a.transposed ? transposed : plain, b.transposed ? transposed : plain, as_int(M), as_int(N), as_int(K), alpha, a.data, as_int(a.stride), b.data,
        as_int(b.stride), beta, c, as_int(c_stride));
}

}  // namespace

bool cublas_in_build() { return found::cublas; }

bool in_build(Library library) { return !file_of(library).empty(); }

std::string variant_name(Library library) {
  constexpr std::string_view names[] = {"peer:openblas", "peer:blis", "peer:onednn"};
  return std::string(names[static_cast<int>(library)]);
}

void multiply(Library library, std::int64_t M, std::int64_t N, std::int64_t K, float alpha, const Operand& a, const Operand& b, float beta, float* c, std::int64_t c_stride) {
  if (M == 0 || N == 0 || K == 0) {
    for (std::int64_t i = 0; i < M; ++i)
      for (std::int64_t j = 0; j < N; ++j) c[i * c_stride + j] = beta == 0 ? 0 : beta * c[i * c_stride + j];
    return;
  }
  switch (library) {
    case Library::openblas: return multiply_cblas(openblas().sgemm, M, N, K, alpha, a, b, beta, c, c_stride);
    case Library::blis: return multiply_cblas(blis().sgemm, M, N, K, alpha, a, b, beta, c, c_stride);
    case Library::onednn: break;
  }
  if (const int status = onednn()(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', M, N, K, alpha, a.data, a.stride, b.data, b.stride, beta, c, c_stride); status != 0)
    throw Error(Error::Kind::internal, variant_name(library) + ": dnnl_sgemm returned " + std::to_string(status));
}

float dot(Library library, std::int64_t n, const float* x, const float* y) {
  if (n == 0) return 0;
  if (library == Library::openblas) return openblas().sdot(as_int(n), x, 1, y, 1);
  if (library == Library::blis) return blis().sdot(as_int(n), x, 1, y, 1);
  float sum = 0;
  multiply(library, 1, 1, n, 1, {x, n}, {y, 1}, 0, &sum, 1);
  return sum;
}

}  // namespace faibench::peers
