// What a schedule sends, counted from its messages alone: bytes per level and partners; and whether its messages fit together.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "schedule/cost.h"
#include "schedule/schedule.h"

namespace faibench {

/// Sums over a rank's messages, by level: [0] between ranks of a node, [1] between nodes.
struct Traffic {
  std::int64_t bytes_sent[2] = {0, 0}, bytes_received[2] = {0, 0};
  std::int64_t messages_sent[2] = {0, 0}, messages_received[2] = {0, 0};
  int partners = 0;      ///< distinct ranks sent to or received from
  int most_incoming = 0; ///< messages received in the busiest round
};
Traffic traffic_of(const Schedule& schedule, const NodeMap& nodes, int rank);

/// Follows every message to its other side: equal counts and regions there, in the same round and order, no message to oneself, none empty, regions inside the rooms, receives of a round disjoint.
/// All ranks (`sampled` empty): each rank's part is asked for once, and a sum of hashes tells whether both sides of all messages agree; else those ranks against at most `most_partners` of their partners,
/// evenly spaced. Empty: sound; else one line that names rank, round, message.
std::optional<std::string> fault_in(const Schedule& schedule, std::span<const int> sampled = {}, int most_partners = std::numeric_limits<int>::max());

}  // namespace faibench
