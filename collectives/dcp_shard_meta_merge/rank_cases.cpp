// Fixed cases of the multi-rank form, for any number of ranks.
#include <limits>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "collectives/dcp_shard_meta_merge/ranks.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

using Records = std::vector<Record>;
using RankCase = MultiRank::RankCase;

/// What each rank brings.
RankCase each(std::string name, std::string note, std::function<Records(Random&, int rank, int ranks)> records) {
  return {std::move(name), std::move(note), [=](Random& random, int ranks) {
            std::vector<Records> all;
            for (int rank = 0; rank < ranks; ++rank) all.push_back(records(random, rank, ranks));
            return merge_input(all);
          }};
}

Records some(Random& random, int count, const std::string& stem) {
  Records records;
  for (int n = 0; n < count; ++n) records.push_back({stem + std::to_string(n), random.below(1 << 20), random.below(100)});
  return records;
}

void add_valid(std::vector<RankCase>& cases) {
  cases.push_back(each("first_has_all", "others are empty", [](Random& random, int rank, int) { return some(random, rank == 0 ? 50 : 0, "layers."); }));
  cases.push_back(each("last_has_all", "others are empty", [](Random& random, int rank, int ranks) { return some(random, rank + 1 == ranks ? 50 : 0, "layers."); }));
  cases.push_back(each("every_other_is_empty", "", [](Random& random, int rank, int) { return some(random, rank % 2 ? 20 : 0, "layers."); }));
  cases.push_back(each("same_list", "equal names in equal order, other extents", [](Random& random, int, int) { return some(random, 64, "layers."); }));
  cases.push_back(each("same_list_repeated", "equal lists of distinct names, other records", [](Random& random, int rank, int) {
    Records records = some(random, 30, "layers.");
    for (int n = 0; n < 5 * rank; ++n) records.push_back({"layers." + std::to_string(random.below(30)), random.below(1 << 20), random.below(100)});
    return records;
  }));
  cases.push_back(each("same_names_other_order", "", [](Random& random, int rank, int) {
    Records records = some(random, 64, "layers.");
    if (rank > 0) random.shuffle(records);
    return records;
  }));
  cases.push_back(each("last_name_differs", "on the last rank, in its last byte", [](Random& random, int rank, int ranks) {
    Records records = some(random, 40, "layers.");
    if (rank + 1 == ranks) records.back().name.back() ^= 1;
    return records;
  }));
  cases.push_back(each("other_boundaries", "equal bytes of all names, other ends", [](Random&, int rank, int) { return rank % 2 ? Records{{"a", 0, 1}, {"bcd", 0, 2}} : Records{{"abc", 0, 3}, {"d", 0, 4}}; }));
  cases.push_back(each("own_names", "no name on two ranks", [](Random& random, int rank, int) { return some(random, 10 + 7 * rank, "rank" + std::to_string(rank) + "."); }));
  cases.push_back(each("own_and_shared", "", [](Random& random, int rank, int) {
    Records records = some(random, 20, "dense.");
    for (Record& own : some(random, 30, "expert" + std::to_string(rank) + ".")) records.push_back(std::move(own));
    return records;
  }));
  cases.push_back(each("largest_on_another_rank", "the first holder's size is not the largest; 2^63-1 on the last", [](Random&, int rank, int ranks) {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    Records records = {{"w", rank, rank}, {"empty", most, 0}};
    if (rank + 1 == ranks) records.push_back({"v", 0, most});
    if (rank == 0) records.push_back({"v", 7, 0});
    return records;
  }));
  for (const Case& c : valid_cases()) cases.push_back({"split_" + c.name, c.note, [inputs = c.inputs](Random& random, int) { return inputs(random); }});
}

using Damage = std::function<void(Random&, TensorMap& shard, int rank, int ranks)>;

RankCase damaged(std::string name, std::string note, std::string code, Damage damage, bool takes_two = false) {
  RankCase c = each(std::move(name), std::move(note), [](Random& random, int rank, int) { return some(random, 8, rank % 2 ? "odd." : "even."); });
  c.damage = std::move(damage);
  c.code = [=](int ranks) { return ranks > 1 || !takes_two ? code : std::string(); };
  return c;
}

std::int64_t& at(TensorMap& shard, const char* tensor, std::size_t index) { return shard.at(tensor).flat<std::int64_t>()[index]; }

void add_invalid(std::vector<RankCase>& cases) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto on_last = [](auto change) {
    return [=](Random&, TensorMap& shard, int rank, int ranks) {
      if (rank + 1 == ranks) change(shard);
    };
  };
  const auto no_name = [](TensorMap& shard) { at(shard, "name_offsets", 1) = 0; };
  cases.push_back(damaged("empty_name", "on the last rank", "empty_name", on_last(no_name)));
  cases.push_back(damaged("negative_offset", "on the last rank", "negative_offset", on_last([](TensorMap& shard) { at(shard, "offset", 3) = -1; })));
  cases.push_back(damaged("negative_length", "on the last rank", "negative_length", on_last([](TensorMap& shard) { at(shard, "length", 7) = -5; })));
  cases.push_back(damaged("extent_overflow", "on the last rank", "extent_overflow", on_last([=](TensorMap& shard) {
                            at(shard, "offset", 2) = most;
                            at(shard, "length", 2) = 1;
                          })));
  cases.push_back(damaged("code_before_rank", "the last rank breaks an earlier row than the first", "empty_name", [=](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank == 0) at(shard, "length", 0) = -1;
    if (rank + 1 == ranks) no_name(shard);
  }));
  cases.push_back(damaged("all_ranks_wrong", "each in another way", "negative_offset", [=](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank % 2 == 0) at(shard, "length", 1) = -1;
    if (rank + 1 == ranks) at(shard, "offset", 5) = -most;
  }));
  cases.push_back(damaged("other_bytes_room", "on the last rank", "rank_mismatch", on_last([](TensorMap& shard) { shard.at("bytes_room").flat<std::int64_t>()[0] += 1; }), true));
  cases.push_back(damaged("other_records_room", "on rank 0", "rank_mismatch", [](Random&, TensorMap& shard, int rank, int) {
    if (rank == 0) shard.at("records_room").flat<std::int64_t>()[0] += 1;
  }, true));
  cases.push_back(damaged("small_bytes_room", "on all ranks", "rank_mismatch", [](Random&, TensorMap& shard, int, int) { shard.at("bytes_room") = Tensor::scalar<std::int64_t>(5); }));
  cases.push_back(damaged("small_records_room", "on all ranks", "rank_mismatch", [](Random&, TensorMap& shard, int, int) { shard.at("records_room") = Tensor::scalar<std::int64_t>(7); }));
  cases.push_back(damaged("record_before_room", "the table's order", "negative_length", [](Random&, TensorMap& shard, int rank, int ranks) {
    if (rank == 0) shard.at("records_room").flat<std::int64_t>()[0] += 1;
    if (rank + 1 == ranks) at(shard, "length", 0) = -1;
  }));
}

}  // namespace

std::vector<RankCase> rank_cases() {
  std::vector<RankCase> cases;
  add_valid(cases);
  add_invalid(cases);
  return cases;
}

}  // namespace faibench::dcp_shard_meta_merge
