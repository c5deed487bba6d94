#include "judge/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace faibench {
namespace {

constexpr std::int64_t guard_bytes = 4096;
constexpr std::uint64_t guard_pattern = 0xA7A7A7A7A7A7A7A7u;  // one byte repeated, so that zones may start anywhere

void fill(std::byte* at, std::int64_t bytes, std::uint64_t pattern) {
  std::int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) std::memcpy(at + i, &pattern, 8);
  std::memcpy(at + i, &pattern, static_cast<std::size_t>(bytes - i));
}

// Offset of the first byte that is not the pattern's, -1 if all are.
std::int64_t first_difference(const std::byte* at, std::int64_t bytes, std::uint64_t pattern) {
  std::int64_t i = 0;
  for (; i + 8 <= bytes; i += 8)
    if (std::memcmp(at + i, &pattern, 8) != 0) break;
  const auto* expected = reinterpret_cast<const std::byte*>(&pattern);
  for (; i < bytes; ++i)
    if (at[i] != expected[i % 8]) return i;
  return -1;
}

// Inputs without elements may ask for an output of any size, past 2^63 bytes too.
std::int64_t bytes_within(std::int64_t room, const std::string& name, const TensorRef& tensor) {
  try {
    std::int64_t bytes = 0;
    if (!__builtin_mul_overflow(tensor.size(), size_of(tensor.dtype), &bytes) && bytes <= room) return bytes;
    throw Error(Error::Kind::bad_input, "shape " + to_string(tensor.shape) + " of " + std::string(name_of(tensor.dtype)) + " is too large: the call's shared memory has room for " +
                                            std::to_string(room) + " bytes more");
  } catch (const Error& error) {
    throw error.at("tensor '" + name + "'");
  }
}

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Arena::Arena() {
  descriptor_ = memfd_create("faibench-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // Sealed: a candidate that cuts the file short would take the judge's pages away.
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(mapping_bytes)) != 0 || fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw Error(Error::Kind::io, std::string("cannot make shared memory for the candidate: ") + std::strerror(errno));
  void* mapping = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (mapping == MAP_FAILED) throw Error(Error::Kind::io, std::string("cannot map shared memory for the candidate: ") + std::strerror(errno));
  control_ = new (mapping) ControlPage{};
  control_->version = ControlPage::version_now;
  data_ = static_cast<std::byte*>(mapping) + control_bytes;
}

Arena::~Arena() {
  if (control_) munmap(control_, mapping_bytes);
  if (descriptor_ >= 0) close(descriptor_);
}

std::vector<std::int64_t> Arena::output_rooms() const {
  std::vector<std::int64_t> rooms;
  for (const Placed& tensor : placed_)
    if (tensor.output) rooms.push_back(tensor.ref.rank() > 0 ? tensor.ref.shape[0] : 0);
  return rooms;
}

void Arena::describe(ControlPage& page) const {
  page.inputs = inputs_;
  page.outputs = static_cast<std::uint32_t>(placed_.size()) - inputs_;
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const Placed& tensor = placed_[i];
    ControlPage::Slot& slot = page.slots[i];
    std::memset(&slot, 0, sizeof slot);
    std::memcpy(slot.name, tensor.name.data(), tensor.name.size());
    slot.dtype = static_cast<std::uint32_t>(tensor.ref.dtype);
    slot.rank = static_cast<std::uint32_t>(tensor.ref.shape.size());
    std::copy(tensor.ref.shape.begin(), tensor.ref.shape.end(), slot.extents);
    slot.offset = tensor.ref.data - data_;
  }
}

void Arena::add(const std::string& name, Dtype dtype, const Shape& shape, bool output, bool in_place) {
  if (placed_.size() == static_cast<std::size_t>(ControlPage::max_tensors)) throw Error(Error::Kind::bad_input, "a call has more than 64 tensors");
  if (name.size() >= sizeof(ControlPage::Slot::name)) throw Error(Error::Kind::bad_input, "tensor name '" + name + "' is too long");
  if (shape.size() > static_cast<std::size_t>(ControlPage::max_rank)) throw Error(Error::Kind::bad_input, "tensor '" + name + "' has more than 8 dimensions");
  TensorRef ref{dtype, shape, nullptr};
  const std::int64_t start = used_ + guard_bytes, bytes = bytes_within(static_cast<std::int64_t>(mapping_bytes - control_bytes) - 2 * guard_bytes - start, name, ref);
  // The zone behind a tensor starts at its last byte, not at the next line: one byte too many is seen.
  const std::int64_t end = start + bytes;
  ref.data = data_ + start;
  fill(data_ + used_, guard_bytes, guard_pattern);
  used_ = rounded_up(end, 64);
  fill(data_ + end, used_ - end + guard_bytes, guard_pattern);
  placed_.push_back({name, ref, output, in_place});
}

void Arena::lay_out(const TensorRefMap& inputs, const std::vector<Contract::OutputShape>& outputs, const std::vector<std::string>& in_place, std::uint64_t nonce) {
  placed_.clear();
  used_ = 0;
  fill(data_, guard_bytes, guard_pattern);  // the first zone is there also where no tensor follows
  // Every 16-bit piece starts with twelve ones and does not end in zeros: a NaN in f16, bf16, f32 and f64; the rest differs from call to call.
  const std::uint64_t piece = 0xFFF1u + nonce % 15;
  poison_ = piece * 0x0001000100010001u;
  for (const auto& [name, tensor] : inputs) add(name, tensor.dtype, tensor.shape, false, false);
  inputs_ = static_cast<std::uint32_t>(placed_.size());
  for (const std::string& name : in_place)
    if (const TensorRef* input = inputs.find(name)) add(name, input->dtype, input->shape, true, true);
  for (const Contract::OutputShape& output : outputs) add(output.name, output.dtype, output.shape, true, false);
  used_ += guard_bytes;
  most_ = std::max(most_, used_);
  for (const Placed& tensor : placed_) {
    const std::int64_t bytes = tensor.ref.bytes();
    if (bytes == 0) continue;
    if (tensor.output && !tensor.in_place) fill(tensor.ref.data, bytes, poison_);
    else std::memcpy(tensor.ref.data, inputs.at(tensor.name).data, static_cast<std::size_t>(bytes));
  }
}

std::vector<std::pair<std::int64_t, std::int64_t>> Arena::ranges(const std::function<bool(const std::string& name, const TensorRef& tensor, bool output)>& chosen) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const TensorRef& tensor = placed_[i].ref;
    if (!chosen(placed_[i].name, tensor, placed_[i].output)) continue;
    const std::int64_t start = i > 0 ? placed_[i - 1].ref.data + placed_[i - 1].ref.bytes() - data_ : 0;  // whole zones, of which neighbours share one
    const std::int64_t end = i + 1 < placed_.size() ? placed_[i + 1].ref.data - data_ : used_;
    if (!ranges.empty() && ranges.back().first + ranges.back().second >= start) ranges.back().second = end - ranges.back().first;
    else ranges.emplace_back(start, end - start);
  }
  return ranges;
}

TensorRefMap Arena::outputs(const std::vector<std::int64_t>& lengths) const {
  TensorRefMap result;
  std::size_t index = 0;
  for (const Placed& tensor : placed_) {
    if (!tensor.output) continue;
    TensorRef ref = tensor.ref;
    if (index < lengths.size() && lengths[index] >= 0 && ref.rank() > 0) ref.shape[0] = lengths[index];
    ++index;
    result.add(tensor.name, ref);
  }
  return result;
}

std::optional<std::string> Arena::violation(const TensorRefMap& inputs) const {
  std::int64_t zone = 0;
  for (std::size_t i = 0; i <= placed_.size(); ++i) {  // the zone before tensor i, which is also the one behind tensor i-1
    const std::int64_t end = i < placed_.size() ? placed_[i].ref.data - data_ : used_;
    const std::int64_t at = first_difference(data_ + zone, end - zone, guard_pattern);
    if (at >= 0) {  // blame the nearer neighbour
      if (placed_.empty()) return "memory without a tensor was written";
      if (i > 0 && (i == placed_.size() || at <= (end - zone) / 2)) return placed_[i - 1].name + ": byte " + std::to_string(at) + " past its end was written";
      return placed_[i].name + ": byte " + std::to_string(end - zone - at) + " before its start was written";
    }
    if (i < placed_.size()) zone = end + placed_[i].ref.bytes();
  }
  for (const Placed& tensor : placed_) {
    if (tensor.output) continue;
    const TensorRef& original = inputs.at(tensor.name);
    const std::int64_t bytes = tensor.ref.bytes();
    if (bytes == 0 || std::memcmp(tensor.ref.data, original.data, static_cast<std::size_t>(bytes)) == 0) continue;
    std::int64_t i = 0;
    const std::int64_t width = size_of(tensor.ref.dtype);
    while (std::memcmp(tensor.ref.data + i * width, original.data + i * width, static_cast<std::size_t>(width)) == 0) ++i;
    return "input " + tensor.name + " was changed at element " + std::to_string(i);
  }
  return std::nullopt;
}

bool Arena::outputs_untouched() const {
  return std::all_of(placed_.begin(), placed_.end(), [&](const Placed& tensor) { return !tensor.output || tensor.in_place || first_difference(tensor.ref.data, tensor.ref.bytes(), poison_) < 0; });
}

}  // namespace faibench
