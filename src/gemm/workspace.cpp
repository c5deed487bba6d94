#include <algorithm>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include "gemm/gemm.h"

namespace faibench::gemm {

Workspace::Workspace(std::int64_t limit) : limit_(std::max<std::int64_t>(limit, 128 << 10)) {}

Workspace::~Workspace() { std::free(data_); }

float* Workspace::at_least(std::int64_t bytes) {
  if (bytes <= bytes_) return data_;
  constexpr std::int64_t huge = 2 << 20;
  std::free(data_);
  data_ = nullptr;
  bytes_ = 0;
  const std::int64_t rounded = (bytes + 63) / 64 * 64, whole = (bytes + huge - 1) / huge * huge;
  const bool large = bytes >= huge && whole <= limit_;  // huge pages save a TLB miss every 4 KiB of packed data
  const std::int64_t size = large ? whole : rounded;
  data_ = static_cast<float*>(std::aligned_alloc(static_cast<std::size_t>(large ? huge : 64), static_cast<std::size_t>(size)));
  if (!data_) throw std::bad_alloc();
  if (large) madvise(data_, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  bytes_ = size;
  return data_;
}

}  // namespace faibench::gemm
