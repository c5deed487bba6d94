// A typed, non-owning, row-major window on a tensor: what kernels take.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

namespace faibench {

/// `Rank` extents over contiguous row-major elements. Copies share the elements; indices are not checked.
template <class T, int Rank>
class View {
 public:
  using Element = T;
  static constexpr int rank = Rank;

  View() = default;
  View(T* data, std::array<std::int64_t, Rank> extents) : data_(data), extents_(extents) {}
  /// A View of mutable elements reads as a View of const ones.
  operator View<const T, Rank>() const requires(!std::is_const_v<T>) { return {data_, extents_}; }

  [[nodiscard]] std::int64_t extent(int d) const { return extents_[static_cast<std::size_t>(d)]; }
  [[nodiscard]] const std::array<std::int64_t, Rank>& extents() const { return extents_; }
  [[nodiscard]] std::int64_t size() const {
    std::int64_t product = 1;
    for (std::int64_t e : extents_) product *= e;
    return product;
  }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::span<T> flat() const { return {data_, static_cast<std::size_t>(size())}; }

  /// Element at (i, j, ...), one index a dimension.
  template <class... Index>
  [[nodiscard]] T& operator()(Index... index) const requires(sizeof...(Index) == Rank) {
    std::int64_t offset = 0;
    int d = 0;
    ((offset = offset * extents_[static_cast<std::size_t>(d++)] + static_cast<std::int64_t>(index)), ...);
    return data_[offset];
  }
  [[nodiscard]] T& operator[](std::int64_t i) const requires(Rank == 1) { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::array<std::int64_t, Rank> extents_{};
};

}  // namespace faibench
