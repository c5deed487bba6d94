// dcp_shard_meta_merge: contract, reference, workloads, gate, floor. The cases are in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "collectives/dcp_shard_meta_merge/ranks.h"

namespace faibench {
namespace dcp_shard_meta_merge {
namespace {

Rejected check_empty_name(const TensorRefMap& inputs) {
  const auto ends = inputs.at("name_offsets").flat<const std::int64_t>();
  for (std::size_t i = 0; i + 1 < ends.size(); ++i)
    if (ends[i] == ends[i + 1]) return reject("empty_name", "name_offsets", static_cast<std::int64_t>(i), std::to_string(ends[i]), "the name that starts here has zero bytes");
  return std::nullopt;
}

Rejected check_negative(const TensorRefMap& inputs, const char* tensor, const char* code) {
  const auto values = inputs.at(tensor).flat<const std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0) return reject(code, tensor, static_cast<std::int64_t>(i), std::to_string(values[i]), "must be 0 or more");
  return std::nullopt;
}

Rejected check_overflow(const TensorRefMap& inputs) {
  const auto offset = inputs.at("offset").flat<const std::int64_t>(), length = inputs.at("length").flat<const std::int64_t>();
  for (std::size_t i = 0; i < offset.size(); ++i)
    if (offset[i] > std::numeric_limits<std::int64_t>::max() - length[i])
      return reject("extent_overflow", "offset", static_cast<std::int64_t>(i), std::to_string(offset[i]), "plus length " + std::to_string(length[i]) + " is more than 2^63-1");
  return std::nullopt;
}

Rejected check_negative_offset(const TensorRefMap& inputs) { return check_negative(inputs, "offset", "negative_offset"); }
Rejected check_negative_length(const TensorRefMap& inputs) { return check_negative(inputs, "length", "negative_length"); }

}  // namespace

Rejected reference::merge_shard_extents(View<const std::int64_t, 1> rank_offsets, View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> offset,
                                        View<const std::int64_t, 1> length, View<std::uint8_t, 1> out_names, View<std::int64_t, 1> out_name_offsets, View<std::int64_t, 1> total, Length& bytes, Length& ends,
                                        Length& tensors) {
  for (std::int64_t i = 0; i < offset.extent(0); ++i)
    if (name_offsets[i] == name_offsets[i + 1]) return reject("empty_name", "name_offsets", i, std::to_string(name_offsets[i]), "zero bytes");
  for (std::int64_t i = 0; i < offset.extent(0); ++i)
    if (offset[i] < 0) return reject("negative_offset", "offset", i, std::to_string(offset[i]), "negative");
  for (std::int64_t i = 0; i < offset.extent(0); ++i)
    if (length[i] < 0) return reject("negative_length", "length", i, std::to_string(length[i]), "negative");
  for (std::int64_t i = 0; i < offset.extent(0); ++i)
    if (std::int64_t end; __builtin_add_overflow(offset[i], length[i], &end)) return reject("extent_overflow", "offset", i, std::to_string(offset[i]), "plus " + std::to_string(length[i]));
  std::unordered_map<std::string_view, std::int64_t> places;
  bytes.value = tensors.value = 0;
  out_name_offsets[0] = 0;
  for (std::int64_t r = 0; r + 1 < rank_offsets.extent(0); ++r)
    for (std::int64_t i = rank_offsets[r]; i < rank_offsets[r + 1]; ++i) {
      const std::string_view name(reinterpret_cast<const char*>(names.data()) + name_offsets[i], static_cast<std::size_t>(name_offsets[i + 1] - name_offsets[i]));
      const auto [entry, added] = places.emplace(name, tensors.value);
      if (added) {
        std::copy(name.begin(), name.end(), out_names.data() + bytes.value);
        total[tensors.value++] = 0;
        bytes.value += static_cast<std::int64_t>(name.size());
        out_name_offsets[tensors.value] = bytes.value;
      }
      if (length[i] > 0) total[entry->second] = std::max(total[entry->second], offset[i] + length[i]);
    }
  ends.value = tensors.value + 1;
  return std::nullopt;
}

namespace {

std::string dense_name(std::int64_t n) {
  static constexpr const char* kinds[] = {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",        "self_attn.o_proj.weight",
                                          "input_layernorm.weight",  "mlp.gate.weight",         "post_attention_layernorm.weight", "mlp.shared_expert.down_proj.weight"};
  return "model.layers." + std::to_string(n / 8) + "." + kinds[n % 8];
}

std::int64_t random_size(Random& random) { return static_cast<std::int64_t>(stable_exp(random.uniform(10, 30) * stable_log(2.0))); }

}  // namespace

std::string expert_name(std::int64_t n) {
  static constexpr const char* projections[] = {"gate", "up", "down"};
  static constexpr const char* suffixes[] = {"", ".exp_avg", ".exp_avg_sq"};
  return "model.layers." + std::to_string(n / 9 / 128) + ".mlp.experts." + std::to_string(n / 9 % 128) + "." + projections[n / 3 % 3] + "_proj.weight" + suffixes[n % 3];
}

TensorMap checkpoint(Random& random, std::int64_t ranks, std::int64_t dense, std::int64_t experts) {
  struct Sharded {
    std::string name;
    std::int64_t rows, row_bytes;
  };
  std::vector<Sharded> tensors;
  for (std::int64_t n = 0; n < dense; ++n) {
    const std::int64_t size = random_size(random), rows = n % 8 == 4 ? random.between(1, std::max<std::int64_t>(1, ranks - 1)) : size;
    tensors.push_back({dense_name(n), rows, std::max<std::int64_t>(1, size / rows)});
  }
  std::vector<std::vector<Record>> records(static_cast<std::size_t>(ranks));
  for (std::int64_t r = 0; r < ranks; ++r) {
    auto& own = records[static_cast<std::size_t>(r)];
    for (const Sharded& tensor : tensors) {
      const std::int64_t chunk = (tensor.rows + ranks - 1) / ranks, first = std::min(tensor.rows, r * chunk), count = std::min(chunk, tensor.rows - first);
      own.push_back({tensor.name, first * tensor.row_bytes, count * tensor.row_bytes});
    }
    for (std::int64_t n = r * experts / ranks; n < (r + 1) * experts / ranks; ++n) own.push_back({expert_name(n), 0, random_size(random)});
  }
  return merge_input(records);
}

namespace {

Task make() {
  Task task;
  task.name = "dcp_shard_meta_merge";
  task.group = "collectives";
  task.summary = "Merge the shard records of all ranks of a checkpoint into global tensor sizes";
  task.semantics =
      "Records belong to one tensor if their names are equal byte for byte. total is the largest offset + length of a tensor's records with length > 0, 0 if it has none; "
      "names come in order of first appearance, ranks in order and records within a rank.";
  task.contract.input("rank_offsets", {Dtype::i64}, {"R+1"}, "records of rank r are rank_offsets[r] .. rank_offsets[r+1]-1", "0 first, not decreasing, N last").last_offset = Extent("N");
  task.contract.input("names", {Dtype::u8}, {"B"}, "bytes of the records' names", "any bytes");
  task.contract.input("name_offsets", {Dtype::i64}, {"N+1"}, "name of record i is names[name_offsets[i] .. name_offsets[i+1])", "0 first, increasing, B last").last_offset = Extent("B");
  task.contract.input("offset", {Dtype::i64}, {"N"}, "first byte of the shard in the flattened tensor", ">= 0");
  task.contract.input("length", {Dtype::i64}, {"N"}, "bytes of the shard", ">= 0");
  task.contract.output("out_names", {Dtype::u8}, {"B"}, "bytes of the distinct names, in order of first appearance").length = "C";
  task.contract.output("out_name_offsets", {Dtype::i64}, {"N+1"}, "name t is out_names[out_name_offsets[t] .. out_name_offsets[t+1])").length = "E";
  task.contract.output("total", {Dtype::i64}, {"N"}, "size of each tensor in bytes").length = "T";
  task.contract.rule("empty_name", "a name of zero bytes", CheckedBy::variant, check_empty_name);
  task.contract.rule("negative_offset", "offset[i] < 0", CheckedBy::variant, check_negative_offset);
  task.contract.rule("negative_length", "length[i] < 0", CheckedBy::variant, check_negative_length);
  task.contract.rule("extent_overflow", "offset[i] + length[i] > 2^63-1", CheckedBy::variant, check_overflow);
  const std::vector<std::string> parameters = {"rank_offsets", "names", "name_offsets", "offset", "length", "out_names", "out_name_offsets", "total", "C", "E", "T"};
  task.variants = {
      {"reference", Kernel({bind(reference::merge_shard_extents, parameters)}), "std::unordered_map of string views"},
      {"baseline", Kernel({bind(baseline::merge_shard_extents, parameters)}), "a list of names searched from the front, then a pass over all records for each name"},
      {"cpu", Kernel({bind(cpu::merge_shard_extents, parameters)}), "the name that followed last time is tried first, else a table of 8-byte slots fetched ahead; bytes always compared"},
  };
  const auto part = [](std::int64_t ranks, std::int64_t dense, std::int64_t experts) { return Generator([=](Random& random) { return checkpoint(random, ranks, dense, experts); }); };
  task.workloads = {
      {"smoke", "4 ranks, 20 tensors, each sharded on all", {part(4, 20, 0)}, 2e-5},
      {"standard", "32 ranks: 40000 names of experts and their optimizer state, each whole on one rank, and 96 dense names sharded over all ranks by ceil chunks; sizes 2^10 to 2^30, uniform exponent",
       {part(32, 96, 40000)}, 2},
      {"large", "1024 ranks, 1024 dense names sharded on all: 2^20 records", {part(1024, 1024, 0)}, 4},
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate = exact_gate();
  task.floor = [](const TensorRefMap& inputs) {
    const auto names = inputs.at("names").flat<const std::uint8_t>();
    const auto ends = inputs.at("name_offsets").flat<const std::int64_t>();
    std::unordered_set<std::string_view> distinct;
    std::size_t distinct_bytes = 0;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      const std::string_view name(reinterpret_cast<const char*>(names.data()) + ends[i], static_cast<std::size_t>(ends[i + 1] - ends[i]));
      if (distinct.insert(name).second) distinct_bytes += name.size();
    }
    return Floor{static_cast<double>(names.size() + 24 * (ends.size() - 1) + distinct_bytes + 16 * distinct.size()), 0};
  };
  task.floor_text = "|names| + 24 N bytes read once, |out_names| + 16 T written";
  task.multi_rank = multi_rank(task.contract);
  return task;
}

}  // namespace
}  // namespace dcp_shard_meta_merge

namespace tasks {
const Task& dcp_shard_meta_merge() {
  static const Task task = faibench::dcp_shard_meta_merge::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
