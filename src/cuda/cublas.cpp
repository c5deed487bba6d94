#include "cuda/cublas.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <limits>
#include <string>

#include "cuda/stream.h"
#include "tensor/error.h"

namespace faibench::cuda {
namespace {

struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSgemm_v2) sgemm;
  cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                            cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);  // its name has an overload in C++
};

template <class Function>
void find(Function& function, void* library, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw Error(Error::Kind::io, std::string("peer:cublas: the library has no ") + name);
}

const Cublas& cublas() {
  static const Cublas loaded = [] {
    const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen((FAIBENCH_CUDA_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw Error(Error::Kind::io, std::string("peer:cublas: ") + dlerror());
    Cublas found{};
    find(found.create, library, "cublasCreate_v2");
    find(found.set_stream, library, "cublasSetStream_v2");
    find(found.set_math_mode, library, "cublasSetMathMode");
    find(found.sgemm, library, "cublasSgemm_v2");
    find(found.gemm_ex, library, "cublasGemmEx");
    return found;
  }();
  return loaded;
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Error(Error::Kind::device, std::string(call) + ": cuBLAS answers " + std::to_string(status));
}

// Of the device that was current at the first call: a process of variants has one. Never destroyed, as the context is gone before.
cublasHandle_t handle(cublasMath_t mode) {
  static const cublasHandle_t made = [] {
    cublasHandle_t handle = nullptr;
    check(cublas().create(&handle), "cublasCreate");
    return handle;
  }();
  check(cublas().set_stream(made, current_stream()), "cublasSetStream");
  check(cublas().set_math_mode(made, mode), "cublasSetMathMode");
  return made;
}

int as_int(std::int64_t n) {
  if (n > std::numeric_limits<int>::max()) throw Error(Error::Kind::bad_input, "peer:cublas: a dimension of " + std::to_string(n) + " is past what its 32-bit calls take");
  return static_cast<int>(n);
}

// cuBLAS counts in columns: to it a row-major matrix is its own transpose, and the product's is b^T @ a^T.
cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

bool has_cublas() { return true; }

void cublas_multiply(std::int64_t M, std::int64_t N, std::int64_t K, float alpha, const CublasOperand& a, const CublasOperand& b, float beta, float* c, std::int64_t c_stride) {
  if (M == 0 || N == 0) return;
  const auto at_least_one = [](std::int64_t stride) { return as_int(stride > 0 ? stride : 1); };
  check(cublas().sgemm(handle(CUBLAS_PEDANTIC_MATH), operation(b.transposed), operation(a.transposed), as_int(N), as_int(M), as_int(K), &alpha, b.data, at_least_one(b.stride), a.data,
                       at_least_one(a.stride), &beta, c, as_int(c_stride)),
        "cublasSgemm");
}

void cublas_multiply(View<const f16, 2> a, View<const f16, 2> b, View<f16, 2> c) {
  const std::int64_t M = c.extent(0), N = c.extent(1), K = a.extent(1);
  if (M == 0 || N == 0) return;
  const float one = 1, zero = 0;
  const auto mode = static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  check(cublas().gemm_ex(handle(mode), CUBLAS_OP_N, CUBLAS_OP_N, as_int(N), as_int(M), as_int(K), &one, b.data(), CUDA_R_16F, as_int(N), a.data(), CUDA_R_16F, as_int(K > 0 ? K : 1), &zero, c.data(),
                         CUDA_R_16F, as_int(N), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

}  // namespace faibench::cuda
