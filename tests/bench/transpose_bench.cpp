// coalesced_matrix_transpose `cpu` beside copies of the same bytes, in turn, on the same threads and the same shared memory: what no score says, for a copy is no transpose.
// Exits with 1 where the standard size gets less than 0.85 of the faster copy.
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "judge/peaks.h"
#include "judge/statistics.h"
#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

namespace faibench {
namespace {

/// As an arena's: shared, in pages of 4 KiB.
class SharedFloats {
 public:
  explicit SharedFloats(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * 4), data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    std::memset(data_, 1, bytes_);
  }
  SharedFloats(const SharedFloats&) = delete;
  ~SharedFloats() { munmap(data_, bytes_); }
  float* data() { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

template <class Work>
double seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Calls copy(from, to, elements) for each thread's share.
template <class Copy>
void on_all_threads(const float* from, float* to, std::int64_t count, Copy copy) {
#pragma omp parallel
  {
    const std::int64_t lines = (count + 15) / 16, threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const std::int64_t start = lines * thread / threads * 16, end = std::min(count, lines * (thread + 1) / threads * 16);
    copy(from + start, to + start, end - start);
  }
}

double share(std::int64_t M, std::int64_t N) {
  constexpr int rounds = 25;
  SharedFloats x(M * N), y(M * N);
  std::vector<double> transpose, stream, plain;
  for (int round = 0; round < rounds; ++round) {
    transpose.push_back(seconds([&] { coalesced_matrix_transpose::cpu::transpose({x.data(), {M, N}}, {y.data(), {N, M}}); }));
    stream.push_back(seconds([&] { on_all_threads(x.data(), y.data(), M * N, stream_copy); }));
    plain.push_back(seconds([&] { on_all_threads(x.data(), y.data(), M * N, [](const float* from, float* to, std::int64_t n) { std::memcpy(to, from, static_cast<std::size_t>(n) * 4); }); }));
  }
  const double ours = median(transpose), streamed = median(stream), copied = median(plain), result = std::min(streamed, copied) / ours;
  std::printf("%8lld x %-8lld %9.2f %12.2f %9.2f %11.2f\n", static_cast<long long>(M), static_cast<long long>(N), ours * 1e3, streamed * 1e3, copied * 1e3, result);
  std::fflush(stdout);
  return result;
}

int run() {
  std::printf("%d threads, medians of 25 in ms\n   size of x         transpose  stream copy    memcpy  share of it\n", omp_get_max_threads());
  const bool reached = share(8192, 4096) >= 0.85;
  for (const auto& [M, N] : {std::pair<std::int64_t, std::int64_t>{8191, 4097}, {2097152, 17}, {17, 2097152}, {4096, 4096}}) share(M, N);
  return reached ? 0 : 1;
}

}  // namespace
}  // namespace faibench

int main() { return faibench::run(); }
