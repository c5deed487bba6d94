#include "tensor/tensor.h"

#include <cstdlib>
#include <cstring>

namespace faibench {

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    if (extent < 0) throw Error(Error::Kind::bad_input, "shape " + to_string(shape) + " has a negative extent");
    if (__builtin_mul_overflow(count, extent, &count) || count > (std::int64_t{1} << 62))
      throw Error(Error::Kind::bad_input, "shape " + to_string(shape) + " has more than 2^62 elements");
  }
  return count;
}

void TensorRef::check_type(Dtype wanted, int wanted_rank) const {
  if (dtype == wanted && rank() == wanted_rank) return;
  throw Error(Error::Kind::internal, "tensor is " + std::string(name_of(dtype)) + to_string(shape) + ", read as " + std::string(name_of(wanted)) +
                                         " of rank " + std::to_string(wanted_rank));
}

void Tensor::Free::operator()(std::byte* p) const noexcept { std::free(p); }

Tensor::Tensor(Dtype dtype, Shape shape) {
  ref_.dtype = dtype;
  ref_.shape = std::move(shape);
  const std::int64_t count = ref_.size();
  const std::int64_t largest = (std::int64_t{1} << 46) / size_of(dtype);  // the address space of today's machines
  if (count > largest) throw Error(Error::Kind::bad_input, "tensor " + to_string(ref_.shape) + " is too large to allocate");
  const std::size_t bytes = static_cast<std::size_t>(count * size_of(dtype));
  const std::size_t rounded = (bytes + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, rounded ? rounded : 64);
  if (!memory) throw Error(Error::Kind::bad_input, "no memory for a tensor " + std::string(name_of(dtype)) + to_string(ref_.shape));
  std::memset(memory, 0, rounded ? rounded : 64);
  owned_.reset(static_cast<std::byte*>(memory));
  ref_.data = owned_.get();
}

Tensor Tensor::text(std::string_view text) {
  Tensor t(Dtype::u8, {static_cast<std::int64_t>(text.size())});
  if (!text.empty()) std::memcpy(t.data(), text.data(), text.size());
  return t;
}

Tensor Tensor::copy_of(const TensorRef& ref) {
  Tensor t(ref.dtype, ref.shape);
  if (ref.bytes() > 0) std::memcpy(t.data(), ref.data, static_cast<std::size_t>(ref.bytes()));
  return t;
}

TensorRefMap refs(const TensorMap& tensors) {
  TensorRefMap result;
  for (const auto& [name, tensor] : tensors) result.add(name, tensor.ref());
  return result;
}

TensorMap clone(const TensorMap& tensors) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) result.add(name, tensor.clone());
  return result;
}

std::int64_t total_bytes(const TensorMap& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.bytes();
  return bytes;
}

}  // namespace faibench
