// Untyped tensors: one that owns its elements, one that refers to them, and ordered maps of both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/error.h"
#include "tensor/view.h"

namespace faibench {

using Shape = std::vector<std::int64_t>;

/// "[2, 3]"; "[]" for a scalar.
std::string to_string(const Shape& shape);
/// Product of the extents (1 for a scalar). Throws Error(bad_input) on a negative extent or past 2^62.
std::int64_t element_count(const Shape& shape);

/// Dtype, shape and place of elements that somebody else owns. Row-major, contiguous.
struct TensorRef {
  Dtype dtype = Dtype::u8;
  Shape shape;
  std::byte* data = nullptr;

  [[nodiscard]] int rank() const { return static_cast<int>(shape.size()); }
  [[nodiscard]] std::int64_t size() const { return element_count(shape); }
  [[nodiscard]] std::int64_t bytes() const { return size() * size_of(dtype); }
  /// Typed view. Throws Error(internal) when dtype or rank differ: the contract's validation comes first.
  template <class T, int Rank>
  [[nodiscard]] View<T, Rank> view() const {
    check_type(dtype_of<std::remove_const_t<T>>, Rank);
    std::array<std::int64_t, Rank> extents{};
    for (int d = 0; d < Rank; ++d) extents[static_cast<std::size_t>(d)] = shape[static_cast<std::size_t>(d)];
    return {reinterpret_cast<T*>(data), extents};
  }
  /// All elements in order, whatever the rank.
  template <class T>
  [[nodiscard]] std::span<T> flat() const {
    check_type(dtype_of<std::remove_const_t<T>>, rank());
    return {reinterpret_cast<T*>(data), static_cast<std::size_t>(size())};
  }
  template <class T>
  [[nodiscard]] T scalar() const {
    check_type(dtype_of<T>, 0);
    return *reinterpret_cast<const T*>(data);
  }

 private:
  void check_type(Dtype wanted, int wanted_rank) const;
};

/// Owns its elements: 64-byte aligned, zero at first, moved or cloned, never copied by accident.
class Tensor {
 public:
  Tensor() : Tensor(Dtype::u8, {0}) {}
  /// Throws Error(bad_input) when the shape is negative or too large to allocate.
  Tensor(Dtype dtype, Shape shape);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  template <class T>
  static Tensor scalar(T value) {
    Tensor t(dtype_of<T>, {});
    *reinterpret_cast<T*>(t.data()) = value;
    return t;
  }
  static Tensor boolean(bool value) { return scalar(Bool8{value}); }
  /// u8[n] with the bytes of `text`.
  static Tensor text(std::string_view text);
  /// `values` must have exactly the shape's number of elements.
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values) {
    Tensor t(dtype_of<T>, std::move(shape));
    if (t.size() != static_cast<std::int64_t>(values.size())) throw Error(Error::Kind::internal, "Tensor::of: value count does not fit the shape");
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(t.data()));
    return t;
  }
  static Tensor copy_of(const TensorRef& ref);
  [[nodiscard]] Tensor clone() const { return copy_of(ref()); }

  [[nodiscard]] Dtype dtype() const { return ref_.dtype; }
  [[nodiscard]] const Shape& shape() const { return ref_.shape; }
  [[nodiscard]] std::int64_t size() const { return ref_.size(); }
  [[nodiscard]] std::int64_t bytes() const { return ref_.bytes(); }
  [[nodiscard]] std::byte* data() { return ref_.data; }
  [[nodiscard]] const std::byte* data() const { return ref_.data; }
  /// Valid while this tensor lives; moving the tensor keeps it valid.
  [[nodiscard]] const TensorRef& ref() const { return ref_; }
  template <class T, int Rank>
  [[nodiscard]] View<T, Rank> view() { return ref_.view<T, Rank>(); }
  template <class T, int Rank>
  [[nodiscard]] View<const T, Rank> view() const { return ref_.view<const T, Rank>(); }
  template <class T>
  [[nodiscard]] std::span<T> flat() { return ref_.flat<T>(); }
  template <class T>
  [[nodiscard]] std::span<const T> flat() const { return ref_.flat<const T>(); }

 private:
  struct Free { void operator()(std::byte* p) const noexcept; };
  std::unique_ptr<std::byte, Free> owned_;
  TensorRef ref_;
};

/// Values by name, in the order they were added. Small, so look-ups walk.
template <class Value>
class NamedList {
 public:
  /// The reference is good until the next add. Throws Error(internal) on a name already there.
  Value& add(std::string name, Value value) {
    if (find(name)) throw Error(Error::Kind::internal, "two tensors are named '" + name + "'");
    return entries_.emplace_back(std::move(name), std::move(value)).second;
  }
  [[nodiscard]] Value* find(std::string_view name) {
    for (auto& [key, value] : entries_)
      if (key == name) return &value;
    return nullptr;
  }
  [[nodiscard]] const Value* find(std::string_view name) const { return const_cast<NamedList*>(this)->find(name); }
  [[nodiscard]] Value& at(std::string_view name) {
    if (Value* value = find(name)) return *value;
    throw Error(Error::Kind::internal, "no tensor is named '" + std::string(name) + "'");
  }
  [[nodiscard]] const Value& at(std::string_view name) const { return const_cast<NamedList*>(this)->at(name); }
  void erase(std::string_view name) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == name; });
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] auto begin() { return entries_.begin(); }
  [[nodiscard]] auto end() { return entries_.end(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }

 private:
  std::vector<std::pair<std::string, Value>> entries_;
};

using TensorMap = NamedList<Tensor>;
using TensorRefMap = NamedList<TensorRef>;

/// References to all tensors of a map, in its order. Valid while the map's tensors live.
TensorRefMap refs(const TensorMap& tensors);
TensorMap clone(const TensorMap& tensors);
/// Sum of the tensors' sizes.
std::int64_t total_bytes(const TensorMap& tensors);

}  // namespace faibench
