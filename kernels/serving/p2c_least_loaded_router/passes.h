// The vector passes of the cpu variant, compiled for each instruction set and picked at run time.
#pragma once
#include <cstdint>

namespace faibench::p2c_least_loaded_router::cpu {

/// True if every one of `count` values lies in 0 .. num_replicas-1.
bool all_valid(const std::int32_t* values, std::int64_t count, std::int32_t num_replicas);

/// One bit a request, in bytes of 8: set where the second candidate was picked; (count + 7) / 8 bytes.
void pack_choices(const std::int32_t* candidates, const std::int32_t* picks, std::int64_t count, std::uint8_t* choices);
/// The inverse. Writes past the caches where `picks` is aligned to 64 bytes: nothing reads it soon.
void unpack_choices(const std::int32_t* candidates, const std::uint8_t* choices, std::int64_t count, std::int32_t* picks);

constexpr std::int64_t hot_replicas = 64;  ///< decide_hot takes at most so many
constexpr std::int64_t hot_epoch = 2048;   ///< and at most so many requests a call
constexpr int hot_open_lanes = 16;         ///< and gives up where more of the first 64 requests have candidates too near each other
/// Decides `count` requests (a multiple of 64) over replicas whose loads mostly lie far apart; false if they do not, and nothing was done.
/// `load` has 65 elements, of which the last is scratch. `order` [num_replicas] is the order of the replicas by load as the last call left it.
bool decide_hot(const std::int32_t* candidates, std::int64_t count, std::uint8_t* order, std::int64_t num_replicas, std::uint32_t* load, std::int32_t* picks);

}  // namespace faibench::p2c_least_loaded_router::cpu
