#include "kernels/serving/safetensors_shard_route/cases.h"

#include <algorithm>
#include <numeric>

namespace faibench::safetensors_shard_route {
namespace {

using Names = std::vector<std::string>;

void add_list(TensorMap& inputs, const std::string& bytes_name, const std::string& offsets_name, const Names& items) {
  std::string bytes;
  std::vector<std::int64_t> offsets = {0};
  for (const std::string& item : items) {
    bytes += item;
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  inputs.add(bytes_name, Tensor::text(bytes));
  inputs.add(offsets_name, Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets));
}

std::vector<std::int64_t> one_file(const Names& names) { return {0, static_cast<std::int64_t>(names.size())}; }

Case fixed(std::string name, std::string note, Names names, std::vector<std::int64_t> file_offsets, Names queries) {
  return {std::move(name), std::move(note), [=](Random&) { return route_input(names, file_offsets, queries); }};
}

/// Every name is declared once and looked up once.
Case all_of(std::string name, std::string note, const Names& names, Names more_queries = {}) {
  Names queries = names;
  queries.insert(queries.end(), more_queries.begin(), more_queries.end());
  return fixed(std::move(name), std::move(note), names, one_file(names), std::move(queries));
}

std::string random_text(Random& random, std::int64_t length, std::int64_t letters, char first) {
  std::string text;
  for (std::int64_t i = 0; i < length; ++i) text += static_cast<char>(first + random.below(letters));
  return text;
}

/// Names of every length from 0 to `longest`, each with a twin that differs in one byte; half of the twins are declared.
TensorMap every_length(Random& random, std::int64_t longest, bool change_last) {
  Names names, queries;
  for (std::int64_t length = 0; length <= longest; ++length) {
    const std::string name = random_text(random, length, 256, 0);
    names.push_back(name);
    queries.push_back(name);
    if (length == 0) continue;
    std::string twin = name;
    twin[static_cast<std::size_t>(change_last ? length - 1 : random.below(length))] ^= static_cast<char>(1 << random.below(8));
    queries.push_back(twin);
    if (length % 2) names.push_back(twin);
  }
  return route_input(names, {0, static_cast<std::int64_t>(names.size() / 3), static_cast<std::int64_t>(names.size())}, queries);
}

TensorMap permuted_letters(Random& random) {
  Names names, queries;
  std::string letters = "abcdef";
  do {
    queries.push_back(letters);
    if (random.chance(0.5)) names.push_back(letters);
  } while (std::next_permutation(letters.begin(), letters.end()));
  std::string halves = "model.layers.10.model.layers.01.";  // equal 8-byte and 16-byte pieces in another order
  names.push_back(halves);
  queries.push_back(halves);
  queries.push_back(halves.substr(16) + halves.substr(0, 16));
  queries.push_back(halves.substr(8) + halves.substr(0, 8));
  return route_input(names, one_file(names), queries);
}

TensorMap swapped_pieces(Random& random) {  // what sums and xors over pieces of 4, 8, 16, 32, 64 bytes take for equal
  Names names, queries;
  for (std::size_t piece : {1, 2, 4, 8, 16, 32, 64})
    for (int count : {2, 3, 4}) {
      Names pieces;
      for (int i = 0; i < count; ++i) pieces.push_back(random_text(random, static_cast<std::int64_t>(piece), 256, 0));
      std::string name, reversed, doubled;
      for (int i = 0; i < count; ++i) {
        name += pieces[static_cast<std::size_t>(i)];
        reversed = pieces[static_cast<std::size_t>(i)] + reversed;
        doubled += pieces[0];
      }
      names.insert(names.end(), {name, doubled});
      queries.insert(queries.end(), {name, reversed, doubled, doubled + pieces[0], name + std::string(piece, '\0')});
    }
  return route_input(names, one_file(names), queries);
}

TensorMap zero_bytes(Random&) {
  Names names, queries;
  for (std::size_t length = 0; length <= 70; ++length) {
    queries.emplace_back(length, '\0');
    if (length % 3 != 1) names.emplace_back(length, '\0');
  }
  for (const std::string& text : {std::string("a\0b", 3), std::string("a\0c", 3), std::string("a\0", 2), std::string("a"), std::string("\0a", 2)}) {
    queries.push_back(text);
    if (text.size() != 2) names.push_back(text);
  }
  return route_input(names, one_file(names), queries);
}

TensorMap in_all_files(Random& random) {
  Names names;
  std::vector<std::int64_t> file_offsets = {0};
  for (int f = 0; f < 20; ++f) {
    for (int i = 0; i < 5; ++i) names.push_back(i == f % 5 ? "in.every.file" : "t" + std::to_string(random.below(30)));
    file_offsets.push_back(static_cast<std::int64_t>(names.size()));
  }
  Names queries = {"in.every.file", "in.every.fil", "in.every.file."};
  for (int i = 0; i < 30; ++i) queries.push_back("t" + std::to_string(i));
  return route_input(names, file_offsets, queries);
}

TensorMap many(Random& random, std::int64_t N, std::int64_t Q, std::int64_t distinct) {
  Names pool, names, queries;
  for (std::int64_t i = 0; i < distinct; ++i) pool.push_back("model.layers." + std::to_string(i % 61) + ".mlp.experts." + std::to_string(i / 61) + (i % 2 ? ".up_proj.weight" : ".down_proj.weight_scale_inv"));
  for (std::int64_t k = 0; k < N; ++k) names.push_back(pool[static_cast<std::size_t>(random.below(distinct))]);
  for (std::int64_t q = 0; q < Q; ++q) queries.push_back(pool[static_cast<std::size_t>(random.below(distinct))]);
  return route_input(names, {0, N / 3, N / 3, N}, queries);
}

TensorMap broken_offsets(Random&, const char* which, std::vector<std::int64_t> offsets) {
  TensorMap inputs = route_input({"ab", "cd", "e"}, {0, 1, 3}, {"cd", "xyz"});
  inputs.at(which) = Tensor::of({static_cast<std::int64_t>(offsets.size())}, offsets);
  return inputs;
}

Case broken(std::string name, std::string note, const char* which, std::vector<std::int64_t> offsets) {
  return {std::move(name), std::move(note), [=](Random& random) { return broken_offsets(random, which, offsets); }};
}

std::vector<Case> valid_cases() {
  std::vector<Case> cases = {
      fixed("nothing_at_all", "N = F = Q = 0", {}, {0}, {}),
      fixed("no_names", "N = 0: every query is unknown", {}, {0, 0, 0}, {"a", "", "__metadata__"}),
      fixed("no_files", "F = 0", {}, {0}, {"a"}),
      fixed("no_queries", "Q = 0", {"a", "b"}, {0, 2}, {}),
      fixed("only_empty_names", "the empty name, declared three times", {"", "", ""}, {0, 1, 3}, {"", "a", ""}),
      fixed("empty_files_first", "they keep their number", {"a", "b"}, {0, 0, 0, 1, 2}, {"a", "b"}),
      fixed("empty_files_between", "they keep their number", {"a", "b", "a"}, {0, 1, 1, 1, 2, 2, 3}, {"a", "b"}),
      fixed("empty_files_last", "they keep their number", {"a", "b"}, {0, 2, 2, 2}, {"a", "b", "c"}),
      {"name_in_all_files", "the last file wins", in_all_files},
      fixed("twice_in_one_file", "the last declaration of a file wins", {"a", "b", "a", "c", "b"}, {0, 3, 5}, {"a", "b", "c"}),
      fixed("only_in_the_first", "a later file without the name changes nothing", {"base", "x", "y"}, {0, 1, 2, 3}, {"base"}),
      fixed("repeated_queries", "answered each", {"a", "b", "a"}, {0, 1, 3}, {"a", "a", "b", "a", "zz", "zz"}),
      all_of("prefixes", "names that are prefixes of each other", {"a", "ab", "abc", "abcd", "abcdefgh", "abcdefghi", "abcdefghijklmnop", "abcdefghijklmnopq"}, {"abcde", "abcdefg", ""}),
      {"last_byte_differs", "lengths 0 to 80", [](Random& random) { return every_length(random, 80, true); }},
      {"any_byte_differs", "lengths 0 to 200", [](Random& random) { return every_length(random, 200, false); }},
      {"long_names", "several hundred bytes, equal but for the last",
       [](Random& random) {
         Names names;
         const std::string stem = random_text(random, 700, 26, 'a');
         for (std::size_t length : {300u, 511u, 512u, 513u, 640u, 700u})
           for (char last : {'x', 'y'}) names.push_back(stem.substr(0, length - 1) + last);
         Names queries = names;
         queries.push_back(stem);
         queries.push_back(names[0].substr(1));
         return route_input(names, one_file(names), queries);
       }},
      {"zero_bytes", "inside, at the end, and nothing else", zero_bytes},
      all_of("no_utf8", "bytes that are no text", {"\xff\xfe", "\x80", "\xc3", "\xc3\x28"}, {"\xff", "\xfe\xff"}),
      all_of("accents", "composed and decomposed are two names", {"caf\xc3\xa9", "cafe\xcc\x81"}, {"cafe", "CAF\xc3\x89"}),
      all_of("case_matters", "no folding", {"Weight", "weight"}, {"WEIGHT"}),
      {"permuted_letters", "anagrams, half of them declared", permuted_letters},
      {"swapped_pieces", "equal pieces in another order", swapped_pieces},
      fixed("metadata_as_query", "looking it up is valid and finds nothing", {"__metadata_", "__metadata___", "_metadata__", "__METADATA__"}, {0, 4}, {"__metadata__", "__metadata___", "__METADATA__"}),
      {"few_queries", "Q much below N", [](Random& random) { return many(random, 3000, 5, 2500); }},
      {"few_names", "N much below Q", [](Random& random) { return many(random, 5, 3000, 7); }},
      {"many_copies", "few distinct names, declared over and over", [](Random& random) { return many(random, 3000, 2000, 3); }},
      {"many_of_both", "no copies to speak of", [](Random& random) { return many(random, 3001, 2999, 15000); }},
  };
  return cases;
}

std::vector<Case> invalid_cases() {
  const auto without = [](Random&, const char* which) {
    TensorMap inputs = route_input({"a"}, {0, 1}, {"a"});
    inputs.erase(which);
    return inputs;
  };
  return {
      fixed("reserved_name_first", "as the first name", {"__metadata__", "a"}, {0, 2}, {"a"}),
      fixed("reserved_name_last", "as the last name of an input that ends with it", {"a", "b", "__metadata__"}, {0, 1, 3}, {"a"}),
      {"reserved_name_among_many", "and Q is small", [](Random& random) {
         Names names;
         for (int i = 0; i < 999; ++i) names.push_back(random_text(random, random.between(0, 70), 26, 'a'));
         names[777] = "__metadata__";
         return route_input(names, one_file(names), {names[5], "__metadata__"});
       }},
      {"reserved_name_no_queries", "Q = 0 is no way around", [](Random&) { return route_input({"x", "__metadata__"}, {0, 0, 2}, {}); }},
      broken("name_offsets_empty", "no element", "name_offsets", {}),
      broken("name_offsets_start", "first is not 0", "name_offsets", {1, 2, 4, 5}),
      broken("name_offsets_fall", "decreasing", "name_offsets", {0, 4, 2, 5}),
      broken("name_offsets_short", "last below B", "name_offsets", {0, 2, 4, 4}),
      broken("name_offsets_long", "last beyond B", "name_offsets", {0, 2, 4, 6}),
      broken("file_offsets_empty", "no element", "file_offsets", {}),
      broken("file_offsets_start", "first is not 0", "file_offsets", {1, 3}),
      broken("file_offsets_fall", "decreasing", "file_offsets", {0, 2, 1, 3}),
      broken("file_offsets_last", "last is not N", "file_offsets", {0, 1, 2}),
      broken("query_offsets_empty", "no element", "query_offsets", {}),
      broken("query_offsets_start", "first is not 0", "query_offsets", {2, 5}),
      broken("query_offsets_fall", "decreasing", "query_offsets", {0, 5, 3, 5}),
      broken("query_offsets_last", "last is not C", "query_offsets", {0, 2, 4}),
      {"missing_queries", "an input short", [=](Random& random) { return without(random, "queries"); }},
      {"unknown_tensor", "an input the contract does not know", [](Random&) { TensorMap in = route_input({"a"}, {0, 1}, {"a"}); in.add("index", Tensor(Dtype::i64, {1})); return in; }},
      {"offsets_are_i32", "another dtype", [](Random&) { TensorMap in = route_input({"a"}, {0, 1}, {"a"}); in.at("name_offsets") = Tensor(Dtype::i32, {2}); return in; }},
      {"names_are_a_matrix", "another rank", [](Random&) { TensorMap in = route_input({"a"}, {0, 1}, {"a"}); in.at("names") = Tensor(Dtype::u8, {1, 1}); return in; }},
  };
}

}  // namespace

TensorMap route_input(const Names& names, std::vector<std::int64_t> file_offsets, const Names& queries) {
  TensorMap inputs;
  add_list(inputs, "names", "name_offsets", names);
  inputs.add("file_offsets", Tensor::of({static_cast<std::int64_t>(file_offsets.size())}, file_offsets));
  add_list(inputs, "queries", "query_offsets", queries);
  return inputs;
}

std::vector<Case> cases() {
  std::vector<Case> all = valid_cases();
  for (Case& c : invalid_cases()) all.push_back(std::move(c));
  return all;
}

TensorMap random_input(Random& random) {
  const std::int64_t distinct = random.between(1, random.chance(0.3) ? 3000 : 100), letters = random.between(1, 30), longest = random.between(0, random.chance(0.2) ? 300 : 90);
  Names pool, names, queries;
  for (std::int64_t i = 0; i < distinct; ++i) {
    std::string name = i > 0 && random.chance(0.3) ? pool[static_cast<std::size_t>(random.below(i))] : std::string();
    if (random.chance(0.5)) name += random_text(random, random.between(0, longest), letters, static_cast<char>(random.chance(0.1) ? 0 : 'a'));
    if (!name.empty() && random.chance(0.3)) name[static_cast<std::size_t>(random.below(std::ssize(name)))] ^= 1;
    pool.push_back(std::move(name));
  }
  std::vector<std::int64_t> file_offsets = {0};
  const std::int64_t files = random.between(1, 12);
  for (std::int64_t f = 0; f < files; ++f) {
    for (std::int64_t count = random.chance(0.2) ? 0 : random.below(2 * distinct / files + 2); count > 0; --count) names.push_back(pool[static_cast<std::size_t>(random.below(distinct))]);
    file_offsets.push_back(static_cast<std::int64_t>(names.size()));
  }
  for (std::int64_t count = random.below(random.chance(0.3) ? 8 : 2 * distinct + 2); count > 0; --count) queries.push_back(pool[static_cast<std::size_t>(random.below(distinct))]);
  return route_input(names, file_offsets, queries);
}

}  // namespace faibench::safetensors_shard_route
