// Memory between two pages that nobody may touch: a read or write past either end is the end of the test.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "tensor/tensor.h"

namespace faibench::testing_support {

/// `bytes` that end right at such a page, or start right behind one.
class Fenced {
 public:
  enum class At { start, end };
  explicit Fenced(std::int64_t bytes, At at = At::end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), size = static_cast<std::size_t>(bytes), pages = (size + page - 1) / page;
    length_ = (pages + 2) * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || (pages > 0 && mprotect(base_ + page, pages * page, PROT_READ | PROT_WRITE) != 0)) throw std::bad_alloc();
    data_ = base_ + page + (at == At::end ? pages * page - size : 0);
  }
  /// A copy of the tensor.
  explicit Fenced(const Tensor& tensor) : Fenced(tensor.bytes()) {
    if (tensor.bytes() > 0) std::memcpy(data_, tensor.data(), static_cast<std::size_t>(tensor.bytes()));
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(base_, length_); }

  template <class T>
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(data_); }

 private:
  std::byte *base_, *data_;
  std::size_t length_;
};

}  // namespace faibench::testing_support
