#include "collectives/tp_allreduce_bias_fuse/agreement.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace faibench::tp_allreduce_bias_fuse {
namespace {

enum Compared { rows, columns, type, bias_hash, compared };

/// The least and the greatest of what the ranks say.
struct Ranges {
  std::array<std::int64_t, compared> least, most;
};

Rejected check(const Ranges& found, const TensorRef& partial, int rank) {
  const auto differs = [&](int k) { return found.least[static_cast<std::size_t>(k)] != found.most[static_cast<std::size_t>(k)]; };
  const auto range = [&](int k) { return "from " + std::to_string(found.least[static_cast<std::size_t>(k)]) + " to " + std::to_string(found.most[static_cast<std::size_t>(k)]); };
  if (differs(rows)) return reject("rank_mismatch", "partial", -1, range(rows) + " tokens", "M differs between ranks");
  if (differs(columns)) return reject("rank_mismatch", "partial", -1, range(columns) + " features", "N differs between ranks");
  if (differs(type)) return reject("rank_mismatch", "partial", -1, std::string(name_of(partial.dtype)) + " on rank " + std::to_string(rank), "dtype differs between ranks");
  if (differs(bias_hash)) return reject("rank_mismatch", "bias", -1, "not the same on all ranks", "the bytes of bias differ between ranks");
  return std::nullopt;
}

/// A slot of the board begins with it.
struct Entry {
  std::array<std::int64_t, compared> values;
  std::int64_t registered;
  Addresses addresses;
};
static_assert(sizeof(Entry) <= entry_bytes);

Entry entry_on(const Board& board, int rank) {
  Entry entry;
  std::memcpy(&entry, board.of(rank), sizeof entry);
  return entry;
}

Ranges ranges_over_board(Board& board, int ranks, const Entry& own, const TensorRef& partial, std::int64_t posted_bytes, bool& registered) {
  std::memcpy(board.own(), &own, sizeof own);
  if (posted_bytes > 0) std::memcpy(board.own() + entry_bytes, partial.data, static_cast<std::size_t>(posted_bytes));
  board.post();
  Ranges found{own.values, own.values};
  for (int rank = 0; rank < ranks; ++rank) {
    const Entry entry = entry_on(board, rank);
    registered &= entry.registered == 1;
    for (std::size_t k = 0; k < compared; ++k) {
      found.least[k] = std::min(found.least[k], entry.values[k]);
      found.most[k] = std::max(found.most[k], entry.values[k]);
    }
  }
  return found;
}

// One reduction: the greatest of a value and of its negative.
Ranges ranges_by_reduction(Communicator& communicator, const Entry& own, bool& registered) {
  std::array<std::int64_t, 2 * compared + 1> values;
  for (std::size_t k = 0; k < compared; ++k) {
    values[k] = own.values[k];
    values[compared + k] = -own.values[k];
  }
  values.back() = registered ? 0 : 1;
  communicator.all_reduce(values.data(), values.data(), static_cast<std::int64_t>(values.size()), Dtype::i64, Reduce::max);
  registered = values.back() == 0;
  Ranges found{};
  for (std::size_t k = 0; k < compared; ++k) {
    found.most[k] = values[k];
    found.least[k] = -values[compared + k];
  }
  return found;
}

}  // namespace

Entered enter(Communicator& communicator, const TensorRef& partial, const TensorRef& bias, const void* out, bool registered, std::int64_t posted_bytes) {
  if (communicator.size() == 1) return {std::nullopt, registered, nullptr};
  const auto hash = static_cast<std::int64_t>(XXH3_64bits(bias.data, static_cast<std::size_t>(bias.bytes())) >> 1);  // so that it can be negated
  const Entry own{{partial.shape[0], partial.shape[1], static_cast<std::int64_t>(partial.dtype), hash}, registered ? 1 : 0, {partial.data, out}};
  Board* const board = communicator.board();
  const Ranges found = board ? ranges_over_board(*board, communicator.size(), own, partial, posted_bytes, registered) : ranges_by_reduction(communicator, own, registered);
  return {check(found, partial, communicator.rank()), registered, board};
}

Addresses posted_addresses(const Board& board, int rank) { return entry_on(board, rank).addresses; }

}  // namespace faibench::tp_allreduce_bias_fuse
