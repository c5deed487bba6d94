// The shared memory of one candidate: the control page and the tensors of the current call, each between guard zones.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "judge/control_page.h"
#include "task/contract.h"
#include "tensor/tensor.h"

namespace faibench {

/// Each candidate process has one of its own: what one of them does to its memory is nothing to the other's answers.
class Arena {
 public:
  Arena();  ///< Throws Error(io) when the system has no room for shared memory.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] ControlPage& control() { return *control_; }
  /// Writes the current layout into the request.
  void describe(ControlPage& page) const;
  /// Rows that each output has room for, in the order of the layout; 0 for scalars.
  [[nodiscard]] std::vector<std::int64_t> output_rooms() const;
  /// Most bytes of the data region that any layout used.
  [[nodiscard]] std::int64_t most_bytes() const { return most_; }

  /// Lays out one call: copies the inputs in, fills outputs with poison and all guard zones with their pattern. In-place outputs start as copies of the inputs.
  /// `outputs` lists dtype and upper-bound shape. Pages used before are used again.
  void lay_out(const TensorRefMap& inputs, const std::vector<Contract::OutputShape>& outputs, const std::vector<std::string>& in_place, std::uint64_t nonce);
  /// The data region, and the parts of it that hold the chosen tensors of the current layout with the guard zones around them: start and length, ascending, without overlaps.
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> ranges(const std::function<bool(const std::string& name, const TensorRef& tensor, bool output)>& chosen) const;
  /// Bytes of the data region in use by the current layout.
  [[nodiscard]] std::int64_t used_bytes() const { return used_; }

  /// The outputs as they stand; `lengths` are the claimed true first extents (-1: none), already checked.
  [[nodiscard]] TensorRefMap outputs(const std::vector<std::int64_t>& lengths) const;

  /// What the call must not have done: written outside an output, or changed an input. One line, or empty.
  [[nodiscard]] std::optional<std::string> violation(const TensorRefMap& inputs) const;
  /// Whether every byte of every proper output still is poison.
  [[nodiscard]] bool outputs_untouched() const;

 private:
  struct Placed {
    std::string name;
    TensorRef ref;      // into the arena
    bool output, in_place;
  };
  void add(const std::string& name, Dtype dtype, const Shape& shape, bool output, bool in_place);

  int descriptor_ = -1;
  ControlPage* control_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t used_ = 0, most_ = 0;
  std::uint64_t poison_ = 0;
  std::uint32_t inputs_ = 0;  // the first of placed_
  std::vector<Placed> placed_;
};

}  // namespace faibench
