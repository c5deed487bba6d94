// Room for packed messages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace faibench::all2all_tensor_redistribute {

/// Grows to what the largest call of its thread needed and is kept for the next: fresh pages cost more than the copies into them.
class Staging {
 public:
  static Staging& of_thread() {
    thread_local Staging staging;
    return staging;
  }
  /// Good until the next call of it; not initialised.
  std::byte* reserve(std::int64_t bytes) {
    if (bytes > bytes_) {
      room_.reset();
      room_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
      bytes_ = bytes;
    }
    return room_.get();
  }

 private:
  std::unique_ptr<std::byte[]> room_;
  std::int64_t bytes_ = 0;
};

}  // namespace faibench::all2all_tensor_redistribute
