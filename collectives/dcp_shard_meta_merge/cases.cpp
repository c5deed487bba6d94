// The fixed cases of dcp_shard_meta_merge, and its random ones.
#include <limits>
#include <utility>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

using Ranks = std::vector<std::vector<Record>>;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

Case fixed(std::string name, std::string note, Ranks ranks) {
  return {std::move(name), std::move(note), [=](Random&) { return merge_input(ranks); }};
}

std::string text(Random& random, std::int64_t length) {
  std::string name;
  for (std::int64_t i = 0; i < length; ++i) name += static_cast<char>(random.below(256));
  return name;
}

/// Every length to 80, each with a twin that differs in the last byte and one that differs somewhere; on three ranks.
TensorMap every_length(Random& random) {
  Ranks ranks(3);
  for (std::int64_t n = 1; n <= 80; ++n) {
    const std::string name = text(random, n);
    std::string last = name, any = name;
    last.back() ^= 1;
    any[static_cast<std::size_t>(random.below(n))] ^= static_cast<char>(0x80);
    ranks[static_cast<std::size_t>(n % 3)].push_back({name, n, n});
    ranks[static_cast<std::size_t>((n + 1) % 3)].push_back({last, 2 * n, n});
    ranks[static_cast<std::size_t>((n + 1) % 3)].push_back({name, 0, 1});
    ranks[static_cast<std::size_t>((n + 2) % 3)].push_back({any, 3 * n, n});
  }
  return merge_input(ranks);
}

TensorMap long_names(Random& random) {
  Ranks ranks(2);
  const std::string stem = text(random, 10'000);
  for (std::size_t size : {1000u, 4096u, 9999u, 10'000u})
    for (char last : {'x', 'y'})
      for (auto& rank : ranks) rank.push_back({stem.substr(0, size - 1) + last, static_cast<std::int64_t>(size), last});
  return merge_input(ranks);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;
/// Different names of equal hash, most of equal length,, found by trying some 10^5.
const Pairs& equal_fnv1a() {
  static const Pairs pairs = {{"model.layers.72.experts.943849.weight", "model.layers.13.experts.751566.weight"}, {"model.layers.88.experts.828214.weight", "model.layers.65.experts.903358.weight"},
                              {"model.layers.87.experts.623437.weight", "model.layers.56.experts.977831.weight"}, {"model.layers.0.experts.694286.weight", "model.layers.32.experts.667227.weight"},
                              {"model.layers.8.experts.199726.weight", "model.layers.29.experts.297386.weight"},  {"model.layers.2.experts.40995.weight", "model.layers.40.experts.988677.weight"}};
  return pairs;
}
const Pairs& equal_crc32() {
  static const Pairs pairs = {{"model.layers.10.experts.671914.weight", "model.layers.92.experts.20722.weight"},  {"model.layers.70.experts.899363.weight", "model.layers.88.experts.527760.weight"},
                              {"model.layers.16.experts.668485.weight", "model.layers.9.experts.72628.weight"},   {"model.layers.40.experts.25931.weight", "model.layers.89.experts.184414.weight"},
                              {"model.layers.80.experts.598370.weight", "model.layers.78.experts.826773.weight"}, {"model.layers.80.experts.899762.weight", "model.layers.78.experts.527361.weight"}};
  return pairs;
}

std::uint32_t times_of(std::uint32_t start, std::uint32_t factor, const std::string& s) {
  for (unsigned char c : s) start = start * factor + c;
  return start;
}

TensorMap colliding(const Pairs& pairs) {
  Ranks ranks(2);
  std::int64_t size = 1;
  for (const auto& [one, other] : pairs) {
    ranks[0].push_back({one, size, 1});
    ranks[1].push_back({other, 0, size});
    ranks[1].push_back({one, size++, 7});
  }
  return merge_input(ranks);
}

/// "Aa" and "BB" agree under 31 (Java), and so do all strings of them; "b" after "a" agrees with what 33 (djb2) makes of the swap.
TensorMap equal_blocks(std::uint32_t factor) {
  const std::string a = "Aa", b = {static_cast<char>('A' + 1), static_cast<char>('a' - static_cast<int>(factor))};
  Ranks ranks(2);
  for (int mask = 0; mask < 64; ++mask) {
    std::string name = "layers.";
    for (int k = 0; k < 6; ++k) name += mask >> k & 1 ? b : a;
    ranks[static_cast<std::size_t>(mask & 1)].push_back({name, mask, 1});
    ranks[1].push_back({name, 0, mask});
  }
  if (times_of(5381, factor, a) != times_of(5381, factor, b)) throw Error(Error::Kind::internal, "the names do not collide");
  return merge_input(ranks);
}

/// The names of every rank alike but for a few: what a prediction from the previous rank has to get right.
TensorMap almost_the_same(Random& random) {
  Ranks ranks(9);
  for (auto& rank : ranks) {
    for (int n = 0; n < 120; ++n) {
      if (random.chance(0.05)) continue;
      rank.push_back({"layers." + std::to_string(n) + ".w", random.below(1000), random.below(100)});
      if (random.chance(0.05)) rank.push_back(rank[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(rank.size())))]);
      if (random.chance(0.02)) rank.push_back({"only." + std::to_string(random.below(1 << 30)), 0, 5});
    }
    if (random.chance(0.3)) random.shuffle(rank);
  }
  return merge_input(ranks);
}

}  // namespace

std::vector<Case> valid_cases() {
  const std::string composed = "caf\xc3\xa9", decomposed = "cafe\xcc\x81", zero("a\0b", 3), zero_other("a\0c", 3), zero_end("a\0", 2);
  return {
      fixed("no_ranks", "R = 0", {}),
      fixed("no_records", "N = 0 on three ranks", {{}, {}, {}}),
      fixed("empty_ranks", "first, middle, last", {{}, {{"a", 0, 3}}, {}, {}, {{"b", 1, 2}, {"a", 3, 3}}, {}}),
      fixed("one_record", "", {{{"w", 5, 10}}}),
      fixed("all_empty", "names stay, sizes are 0", {{{"a", 0, 0}, {"b", 100, 0}}, {{"a", 50, 0}}}),
      fixed("empty_with_large_offset", "covers nothing", {{{"w", 0, 10}, {"w", most, 0}}, {{"w", 4096, 0}}}),
      fixed("empty_then_real", "", {{{"w", 99, 0}}, {{"w", 0, 7}}, {{"w", 7, 1}}}),
      fixed("one_tensor", "", {{{"w", 0, 4}}, {{"w", 4, 4}}, {{"w", 8, 3}}}),
      fixed("replicated", "max, not sum", {{{"w", 0, 64}}, {{"w", 0, 64}}, {{"w", 0, 64}}}),
      fixed("overlaps_and_gaps", "legal", {{{"w", 0, 10}, {"w", 5, 10}}, {{"w", 100, 1}, {"w", 3, 1}}}),
      fixed("last_is_smaller", "not the last writer", {{{"w", 100, 50}}, {{"w", 0, 100}}}),
      fixed("largest_extent", "2^63-1 exactly", {{{"w", most - 5, 5}, {"v", 0, most}}, {{"w", 0, 1}, {"u", most, 0}}}),
      fixed("order", "of first appearance, not of the alphabet", {{{"z", 0, 1}, {"m", 0, 2}}, {{"a", 0, 3}, {"z", 1, 4}}, {{"b", 0, 5}, {"a", 0, 9}}}),
      fixed("prefixes", "", {{{"a", 0, 1}, {"ab", 0, 2}, {"abc", 0, 3}, {"abcdefgh", 0, 4}, {"abcdefghi", 0, 5}}, {{"abcdefghabcdefgh", 0, 6}, {"abcdefghabcdefgha", 0, 7}, {"ab", 5, 5}}}),
      fixed("zero_bytes", "in names", {{{zero, 0, 1}, {zero_other, 0, 2}, {zero_end, 0, 3}, {"a", 0, 4}, {std::string(1, '\0'), 0, 5}}, {{std::string(2, '\0'), 0, 6}, {zero, 9, 9}}}),
      fixed("accents", "composed and decomposed are two names, no folding", {{{composed, 0, 1}, {decomposed, 0, 2}}, {{"W", 0, 3}, {"w", 0, 4}}}),
      fixed("boundary_of_names", "equal bytes, other ends", {{{"ab", 0, 1}, {"c", 0, 2}, {"a", 0, 3}, {"bc", 0, 4}, {"abc", 0, 5}}}),
      {"every_length", "twins that differ in one byte", every_length},
      {"long_names", "up to 10000 bytes", long_names},
      {"almost_the_same", "ranks list nearly the same names", almost_the_same},
      {"weak_fnv", "names of equal FNV-1a-32", [](Random&) { return colliding(equal_fnv1a()); }},
      {"weak_crc", "names of equal CRC32", [](Random&) { return colliding(equal_crc32()); }},
      {"weak_31", "names of equal hash by factor 31", [](Random&) { return equal_blocks(31); }},
      {"weak_33", "names of equal hash by factor 33", [](Random&) { return equal_blocks(33); }},
      {"many", "thousands of names", [](Random& random) {
         Ranks ranks(4);
         for (int i = 0; i < 6000; ++i) ranks[static_cast<std::size_t>(i / 1500)].push_back({"model.layers." + std::to_string(random.below(4000)), random.below(1 << 20), random.below(100)});
         return merge_input(ranks);
       }},
  };
}

namespace {

std::vector<Case> invalid_cases() {
  const Ranks good = {{{"a", 0, 1}, {"bc", 2, 3}}, {}, {{"a", 4, 5}}};
  std::vector<Case> cases = {
      fixed("empty_name", "", {{{"a", 0, 1}}, {{"", 0, 1}}}),
      fixed("empty_name_of_an_empty_record", "", {{{"", 0, 0}}}),
      fixed("negative_offset", "", {{{"a", 0, 1}, {"b", -1, 4}}}),
      fixed("negative_offset_of_an_empty_record", "", {{{"a", 0, 1}, {"b", -1, 0}}}),
      fixed("negative_length", "", {{{"a", 0, -1}, {"b", 1, 4}}}),
      fixed("least_values", "negative_offset", {{{"a", -most - 1, -most - 1}}}),
      fixed("overflow", "by one", {{{"a", most, 1}}}),
      fixed("overflow_by_far", "", {{{"b", 0, 1}}, {{"a", most, most}}}),
      fixed("empty_name_first", "over all records before the next code", {{{"a", -1, -1}, {"b", most, most}}, {{"", 0, 1}}}),
      fixed("offset_before_length", "", {{{"a", 0, -1}, {"b", most, most}}, {{"c", -1, 1}}}),
      fixed("length_before_overflow", "", {{{"b", most, most}}, {{"c", 1, -1}}}),
  };
  const auto damaged = [&](std::string name, std::string note, std::function<void(TensorMap&)> damage) {
    cases.push_back({std::move(name), std::move(note), [=](Random&) {
                       TensorMap inputs = merge_input(good);
                       damage(inputs);
                       return inputs;
                     }});
  };
  const auto offsets = [&](std::string name, const char* tensor, std::vector<std::int64_t> values) {
    damaged(std::move(name), "bad_offsets", [=](TensorMap& in) { in.at(tensor) = Tensor::of({static_cast<std::int64_t>(values.size())}, values); });
  };
  offsets("rank_offsets_empty", "rank_offsets", {});
  offsets("rank_offsets_start", "rank_offsets", {1, 2, 3});
  offsets("rank_offsets_fall", "rank_offsets", {0, 2, 1, 3});
  offsets("rank_offsets_short", "rank_offsets", {0, 2});
  offsets("rank_offsets_long", "rank_offsets", {0, 2, 4});
  offsets("name_offsets_start", "name_offsets", {1, 1, 3, 4});
  offsets("name_offsets_fall", "name_offsets", {0, 3, 2, 4});
  offsets("name_offsets_short", "name_offsets", {0, 1, 2, 3});
  offsets("name_offsets_long", "name_offsets", {0, 1, 3, 5});
  damaged("no_lengths", "missing_tensor", [](TensorMap& in) { in.erase("length"); });
  damaged("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("dtype", Tensor(Dtype::u8, {3})); });
  damaged("offset_of_i32", "wrong_dtype", [](TensorMap& in) { in.at("offset") = Tensor(Dtype::i32, {3}); });
  damaged("names_of_rank_2", "wrong_rank", [](TensorMap& in) { in.at("names") = Tensor(Dtype::u8, {2, 2}); });
  damaged("short_length", "dim_mismatch", [](TensorMap& in) { in.at("length") = Tensor(Dtype::i64, {2}); });
  return cases;
}

}  // namespace

TensorMap merge_input(const Ranks& ranks) {
  std::vector<std::int64_t> rank_offsets = {0}, name_offsets = {0}, offset, length;
  std::string names;
  for (const auto& rank : ranks) {
    for (const Record& record : rank) {
      names += record.name;
      name_offsets.push_back(static_cast<std::int64_t>(names.size()));
      offset.push_back(record.offset);
      length.push_back(record.length);
    }
    rank_offsets.push_back(static_cast<std::int64_t>(offset.size()));
  }
  const auto tensor = [](const std::vector<std::int64_t>& values) { return Tensor::of({static_cast<std::int64_t>(values.size())}, values); };
  TensorMap inputs;
  inputs.add("rank_offsets", tensor(rank_offsets));
  inputs.add("names", Tensor::text(names));
  inputs.add("name_offsets", tensor(name_offsets));
  inputs.add("offset", tensor(offset));
  inputs.add("length", tensor(length));
  return inputs;
}

std::vector<Case> cases() {
  std::vector<Case> all = valid_cases();
  for (Case& c : invalid_cases()) all.push_back(std::move(c));
  return all;
}

TensorMap random_input(Random& random) {
  const std::int64_t distinct = random.between(1, 60);
  std::vector<std::string> pool;
  for (std::int64_t i = 0; i < distinct; ++i) pool.push_back(i > 0 && random.chance(0.3) ? pool[static_cast<std::size_t>(random.below(i))] + text(random, 1) : text(random, random.between(1, 40)));
  Ranks ranks(static_cast<std::size_t>(random.between(0, 7)));
  for (auto& rank : ranks) {
    if (random.chance(0.2)) continue;
    if (random.chance(0.5)) {
      for (const std::string& name : pool) rank.push_back({name, random.below(1000), random.chance(0.2) ? 0 : random.below(100)});
    } else {
      for (std::int64_t n = random.between(0, 50); n > 0; --n) rank.push_back({pool[static_cast<std::size_t>(random.below(distinct))], random.below(1 << 30), random.chance(0.2) ? 0 : random.below(1 << 30)});
    }
  }
  return merge_input(ranks);
}

}  // namespace faibench::dcp_shard_meta_merge
