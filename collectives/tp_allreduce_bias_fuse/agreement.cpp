#include "collectives/tp_allreduce_bias_fuse/agreement.h"

#include <xxhash.h>

#include "communicator/communicator.h"

namespace faibench::tp_allreduce_bias_fuse {

// The maximum of each value and of its negative differ from one rank's own exactly where the ranks differ. All come to the same answer.
Rejected compare_ranks(Communicator& communicator, const TensorRef& partial, const TensorRef& bias, bool& everywhere) {
  if (communicator.size() == 1) return std::nullopt;
  constexpr int compared = 4;
  const auto hash = static_cast<std::int64_t>(XXH3_64bits(bias.data, static_cast<std::size_t>(bias.bytes())) >> 1);  // so that it can be negated
  std::int64_t values[2 * compared + 1] = {partial.shape[0], partial.shape[1], static_cast<std::int64_t>(partial.dtype), hash};
  for (int k = 0; k < compared; ++k) values[compared + k] = -values[k];
  values[2 * compared] = everywhere ? 0 : 1;
  communicator.all_reduce(values, values, 2 * compared + 1, Dtype::i64, Reduce::max);
  everywhere = values[2 * compared] == 0;
  const auto differs = [&](int k) { return values[k] != -values[compared + k]; };
  const auto range = [&](int k) { return "from " + std::to_string(-values[compared + k]) + " to " + std::to_string(values[k]); };
  if (differs(0)) return reject("rank_mismatch", "partial", -1, range(0) + " tokens", "M differs between ranks");
  if (differs(1)) return reject("rank_mismatch", "partial", -1, range(1) + " features", "N differs between ranks");
  if (differs(2)) return reject("rank_mismatch", "partial", -1, std::string(name_of(partial.dtype)) + " on rank " + std::to_string(communicator.rank()), "dtype differs between ranks");
  if (differs(3)) return reject("rank_mismatch", "bias", -1, "not the same on all ranks", "the bytes of bias differ between ranks");
  return std::nullopt;
}

}  // namespace faibench::tp_allreduce_bias_fuse
