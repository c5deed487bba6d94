// Who merges which name: the owner of its hash. Few ranks send to each other directly. On many, entries halve their way in log2 P steps, first between neighbours, merged at each; answers come back
// the same way.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "communicator/communicator.h"
#include "schedule/schedule.h"

namespace faibench::dcp_shard_meta_merge {

/// A name as it travels before it is known who sends its bytes: equal exactly for equal names, but for a collision of two hashes.
struct Entry {
  std::uint64_t hash[2];
  std::uint64_t check;  ///< name length below, a second hash above
  std::int64_t total;
  [[nodiscard]] bool same_name(const Entry& other) const { return hash[0] == other.hash[0] && hash[1] == other.hash[1] && check == other.check; }
};
static_assert(sizeof(Entry) == 32);
Entry entry_of(const std::uint8_t* name, std::size_t size, std::int64_t total);
/// Which of `owners` merges it.
inline int owner_of(const Entry& entry, int owners) { return static_cast<int>(static_cast<unsigned __int128>(entry.hash[0]) * static_cast<unsigned>(owners) >> 64); }

inline constexpr int few_ranks = 16;  ///< that send to each other directly
/// How many ranks own names: all, or on more than `few` the largest power of two in them.
int owners_among(int ranks, int few = few_ranks);

/// Collective. Of each of this rank's entries, distinct names in order, the largest total of all ranks where it is the first rank to have the name, else -1.
std::vector<std::int64_t> ask_owners(Communicator& communicator, const std::vector<Entry>& entries, int few = few_ranks);

/// The messages of ask_owners() where all names are distinct: names [first_name[r], first_name[r+1]) are rank r's, and name n is owner[n]'s to merge, of owners_among(ranks).
std::vector<std::shared_ptr<const Schedule>> owner_schedules(std::span<const std::int64_t> first_name, std::span<const std::int32_t> owner);

/// counts[r] elements of rank r, all on every rank, in rank order; `own` may lie at its place in `all`. Collective.
void gather(Communicator& communicator, const void* own, void* all, std::span<const std::int64_t> counts, std::int64_t element_bytes);
/// The messages of gather().
std::shared_ptr<const Schedule> gather_schedule(std::span<const std::int64_t> counts, const NodeMap& nodes, std::int64_t element_bytes);

}  // namespace faibench::dcp_shard_meta_merge
