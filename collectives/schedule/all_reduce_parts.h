// The all-reduce schedules behind all_reduce_schedule(), a function a family.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "schedule/schedule.h"

namespace faibench {

/// Elements of a vector that is summed over ranks.
struct Summed {
  std::int64_t count, wire_bytes, partial_bytes;
  [[nodiscard]] std::array<std::int64_t, buffer_kinds> element_bytes() const { return {wire_bytes, wire_bytes, wire_bytes, partial_bytes, partial_bytes}; }
};

std::unique_ptr<Schedule> one_shot_all_reduce(const Summed& vector, int ranks);
std::unique_ptr<Schedule> two_shot_all_reduce(const Summed& vector, int ranks);
/// These take 2 ranks or more.
std::unique_ptr<Schedule> raw_halving_all_reduce(const Summed& vector, int ranks);
std::unique_ptr<Schedule> recursive_doubling_all_reduce(const Summed& vector, int ranks);
std::unique_ptr<Schedule> halving_doubling_all_reduce(const Summed& vector, int ranks);
std::unique_ptr<Schedule> ring_all_reduce(const Summed& vector, int ranks);
/// Takes uniform nodes, two or more of them.
std::unique_ptr<Schedule> hierarchical_all_reduce(const Summed& vector, const NodeMap& nodes);

}  // namespace faibench
