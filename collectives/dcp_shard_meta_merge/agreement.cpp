// What ranks settle before they exchange anything: whose fault comes first, and whether they have the same room.
#include <algorithm>
#include <limits>
#include <vector>

#include "collectives/dcp_shard_meta_merge/ranks.h"
#include "communicator/communicator.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

// Order of the table. A key holds (row, rank, record), most significant first, so that the least key is what the concatenation in rank order reports first.
constexpr const char* codes[] = {"empty_name", "negative_offset", "negative_length", "extent_overflow"};
constexpr std::int64_t no_fault = std::numeric_limits<std::int64_t>::max();
constexpr int record_bits = 40, rank_bits = 20;

std::int64_t key_of(const Rejected& fault, int rank) {
  if (!fault) return no_fault;
  std::int64_t row = 0;
  while (fault->code != codes[row]) ++row;
  return row << (rank_bits + record_bits) | std::int64_t{rank} << record_bits | fault->index;
}

/// All ranks learn the values at fault, and how many records and bytes come before that rank's.
Rejection describe(Communicator& communicator, const TensorRefMap& shard, std::int64_t key) {
  const auto row = key >> (rank_bits + record_bits), record = key & ((std::int64_t{1} << record_bits) - 1);
  const auto rank = static_cast<int>(key >> record_bits & ((std::int64_t{1} << rank_bits) - 1));
  std::int64_t known[4] = {0, 0, 0, 0};  // records before, bytes before, offset, length
  if (communicator.rank() < rank) {
    known[0] = shard.at("offset").size();
    known[1] = shard.at("names").size();
  } else if (communicator.rank() == rank) {
    known[1] = shard.at("name_offsets").flat<const std::int64_t>()[static_cast<std::size_t>(record)];
    known[2] = shard.at("offset").flat<const std::int64_t>()[static_cast<std::size_t>(record)];
    known[3] = shard.at("length").flat<const std::int64_t>()[static_cast<std::size_t>(record)];
  }
  communicator.all_reduce(known, known, 4, Dtype::i64, Reduce::sum);
  const std::int64_t index = known[0] + record;
  const std::string place = ", record " + std::to_string(record) + " of rank " + std::to_string(rank);
  switch (row) {
    case 0: return reject(codes[row], "name_offsets", index, std::to_string(known[1]), "the name has zero bytes" + place);
    case 1: return reject(codes[row], "offset", index, std::to_string(known[2]), "it must be 0 or more" + place);
    case 2: return reject(codes[row], "length", index, std::to_string(known[3]), "it must be 0 or more" + place);
    default: return reject(codes[row], "offset", index, std::to_string(known[2]), "plus length " + std::to_string(known[3]) + " is more than 2^63-1" + place);
  }
}

}  // namespace

Rejected first_fault(const TensorRefMap& shard) {
  const auto ends = shard.at("name_offsets").flat<const std::int64_t>(), offset = shard.at("offset").flat<const std::int64_t>(), length = shard.at("length").flat<const std::int64_t>();
  const auto N = static_cast<std::int64_t>(offset.size());
  const auto at = [](std::span<const std::int64_t> values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  for (std::int64_t i = 0; i < N; ++i)
    if (at(ends, i) == at(ends, i + 1)) return reject(codes[0], "name_offsets", i, std::to_string(at(ends, i)), "zero bytes");
  for (std::int64_t i = 0; i < N; ++i)
    if (at(offset, i) < 0) return reject(codes[1], "offset", i, std::to_string(at(offset, i)), "negative");
  for (std::int64_t i = 0; i < N; ++i)
    if (at(length, i) < 0) return reject(codes[2], "length", i, std::to_string(at(length, i)), "negative");
  for (std::int64_t i = 0; i < N; ++i)
    if (at(length, i) > std::numeric_limits<std::int64_t>::max() - at(offset, i)) return reject(codes[3], "offset", i, std::to_string(at(offset, i)), "plus length past 2^63-1");
  return std::nullopt;
}

Rejected agree(Communicator& communicator, const TensorRefMap& shard, const Rejected& own, std::span<std::int64_t> extra) {
  const std::int64_t bytes_room = shard.at("bytes_room").scalar<std::int64_t>(), records_room = shard.at("records_room").scalar<std::int64_t>();
  // The least of each value and of its complement tell whether all are alike.
  std::vector<std::int64_t> values = {key_of(own, communicator.rank()), bytes_room, ~bytes_room, records_room, ~records_room};
  const std::size_t fixed = values.size();
  values.insert(values.end(), extra.begin(), extra.end());
  if (communicator.size() > 1) communicator.all_reduce(values.data(), values.data(), static_cast<std::int64_t>(values.size()), Dtype::i64, Reduce::min);
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(fixed), values.end(), extra.begin());
  if (values[0] != no_fault) return describe(communicator, shard, values[0]);
  if (values[1] != ~values[2]) return reject("rank_mismatch", "bytes_room", -1, "from " + std::to_string(values[1]) + " to " + std::to_string(~values[2]), "it differs between ranks");
  if (values[3] != ~values[4]) return reject("rank_mismatch", "records_room", -1, "from " + std::to_string(values[3]) + " to " + std::to_string(~values[4]), "it differs between ranks");
  return std::nullopt;
}

Rejected check_room(const TensorRefMap& shard, std::int64_t bytes, std::int64_t names) {
  const std::int64_t bytes_room = shard.at("bytes_room").scalar<std::int64_t>(), records_room = shard.at("records_room").scalar<std::int64_t>();
  if (bytes > bytes_room) return reject("rank_mismatch", "bytes_room", -1, std::to_string(bytes_room), "the distinct names of all ranks take " + std::to_string(bytes) + " bytes");
  if (names > records_room) return reject("rank_mismatch", "records_room", -1, std::to_string(records_room), "there are " + std::to_string(names) + " distinct names");
  return std::nullopt;
}

}  // namespace faibench::dcp_shard_meta_merge
