// The shared memory of one judge: the control page and the tensors of the current call, each between guard zones.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "judge/control_page.h"
#include "task/contract.h"
#include "tensor/tensor.h"

namespace faibench {

/// Owned by the judge; both its candidate processes map the same pages, so that neither has the better memory.
class Arena {
 public:
  Arena();  ///< Throws Error(io) when the system has no room for shared memory.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// A control page that no other candidate uses, zeroed; its number is what the candidate process is told. Throws Error(internal) when all are taken.
  int take_channel();
  void give_back_channel(int channel) { taken_[static_cast<std::size_t>(channel)] = false; }
  [[nodiscard]] ControlPage& control(int channel);
  /// Writes the current layout into a channel's request.
  void describe(ControlPage& page) const;

  /// Lays out one call: copies the inputs in, fills outputs with poison and all guard zones with their pattern. In-place outputs start as copies of the inputs.
  /// `outputs` lists dtype and upper-bound shape. Pages used before are used again.
  void lay_out(const TensorRefMap& inputs, const std::vector<Contract::OutputShape>& outputs, const std::vector<std::string>& in_place, std::uint64_t nonce);
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
  std::byte* place(std::int64_t bytes);
  void add(const std::string& name, Dtype dtype, const Shape& shape, bool output, bool in_place);

  int descriptor_ = -1;
  std::byte* mapping_ = nullptr;
  std::array<bool, channels> taken_{};
  std::byte* data_ = nullptr;
  std::int64_t used_ = 0;
  std::uint64_t poison_ = 0;
  std::uint32_t inputs_ = 0;  // the first of placed_
  std::vector<Placed> placed_;
};

}  // namespace faibench
