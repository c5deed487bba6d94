// Which GPU each rank of a node works on.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace faibench {

/// For the ranks of one node, in the order of their node-local ranks, each with the UUIDs visible to it: the position in its own list of the GPU it is given, -1 where it sees none.
/// Where all see all, local rank i gets the i-th; where each sees one, its own; where there are more ranks than GPUs, they are shared evenly. Ranks with little choice choose first.
std::vector<int> assign_gpus(const std::vector<std::vector<std::string>>& visible);

inline constexpr const char* visible_devices = "CUDA_VISIBLE_DEVICES";

/// The value of CUDA_VISIBLE_DEVICES under which a process sees only device number `position` of those that it saw under `value` (nothing: unset): exact for numbers, UUIDs and slices,
/// in any CUDA_DEVICE_ORDER.
std::string only_device(const std::optional<std::string>& value, int position);

}  // namespace faibench
