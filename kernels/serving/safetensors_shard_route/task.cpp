// safetensors_shard_route: contract, reference, workloads, gate, floor. The cases are in cases.cpp.
#include "task/task.h"

#include <string_view>
#include <unordered_map>

#include "kernels/serving/safetensors_shard_route/cases.h"
#include "kernels/serving/safetensors_shard_route/safetensors_shard_route.h"

namespace faibench {
namespace safetensors_shard_route {
namespace {

std::string_view list_item(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> offsets, std::size_t i) {
  return {reinterpret_cast<const char*>(bytes.data()) + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i])};
}

Rejected check_reserved(std::span<const std::uint8_t> names, std::span<const std::int64_t> offsets) {
  for (std::size_t k = 0; k + 1 < offsets.size(); ++k)
    if (list_item(names, offsets, k) == "__metadata__") return reject("reserved_name", "names", offsets[k], "__metadata__", "name " + std::to_string(k) + " is the format's header key, never a tensor");
  return std::nullopt;
}

}  // namespace

Rejected reference::resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                                         View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry) {
  if (Rejected rejected = check_reserved(names.flat(), name_offsets.flat())) return rejected;
  struct Place {
    std::int32_t file = -1;
    std::int64_t entry = -1;
  };
  std::unordered_map<std::string_view, Place> places;
  for (std::int64_t f = 0; f + 1 < file_offsets.extent(0); ++f)
    for (std::int64_t k = file_offsets[f]; k < file_offsets[f + 1]; ++k) places[list_item(names.flat(), name_offsets.flat(), static_cast<std::size_t>(k))] = {static_cast<std::int32_t>(f), k};
  for (std::int64_t q = 0; q < file.extent(0); ++q) {
    const auto found = places.find(list_item(queries.flat(), query_offsets.flat(), static_cast<std::size_t>(q)));
    const Place place = found == places.end() ? Place() : found->second;
    file[q] = place.file;
    entry[q] = place.entry;
  }
  return std::nullopt;
}

namespace {

// The n-th name of a mixture-of-experts checkpoint: layers from 3 on, 256 experts, six tensors each.
std::string checkpoint_name(std::int64_t n) {
  static constexpr const char* projections[] = {"gate_proj", "up_proj", "down_proj"};
  static constexpr const char* suffixes[] = {".weight", ".weight_scale_inv"};
  const std::int64_t tensor = n % 6, expert = n / 6 % 256, layer = 3 + n / 6 / 256;
  return "model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) + "." + projections[tensor / 2] + suffixes[tensor % 2];
}

TensorMap checkpoint(Random& random, std::int64_t N, std::int64_t Q, std::int64_t F) {
  std::vector<std::string> names, queries;
  for (std::int64_t n = 0; n < N; ++n) names.push_back(checkpoint_name(n));
  for (std::int64_t k = 0; k < N; ++k)
    if (random.chance(0.05)) names[static_cast<std::size_t>(k)] = checkpoint_name((k + 1 + random.below(N - 1)) % N);  // any but its own
  for (std::int64_t q = 0; q < Q; ++q) {
    static constexpr const char* unknown[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    if (random.chance(0.95))
      queries.push_back(names[static_cast<std::size_t>(random.below(N))]);
    else
      queries.push_back("model.layers." + std::to_string(random.between(0, 99)) + ".self_attn." + unknown[random.below(4)] + ".bias");
  }
  std::vector<std::int64_t> file_offsets;
  for (std::int64_t f = 0; f <= F; ++f) file_offsets.push_back(f * N / F);
  return route_input(names, file_offsets, queries);
}

Task make() {
  Task task;
  task.name = "safetensors_shard_route";
  task.group = "serving";
  task.summary = "Finds the shard file that each tensor name is to be read from, the last declaration winning";
  task.semantics =
      "Names are equal if length and bytes are. entry[q] is the largest k with name k equal to query q, file[q] the file that declares name k; -1 and -1 if there is none. "
      "Files without names keep their number; repeated queries are answered each.";
  task.contract.input("names", {Dtype::u8}, {"B"}, "bytes of all declared names, file by file, in the order of declaration", "any bytes");
  task.contract.input("name_offsets", {Dtype::i64}, {"N+1"}, "name k is names[name_offsets[k] .. name_offsets[k+1])", "0 first, not decreasing, B last").last_offset = Extent("B");
  task.contract.input("file_offsets", {Dtype::i64}, {"F+1"}, "file f declares the names file_offsets[f] .. file_offsets[f+1]-1", "0 first, not decreasing, N last").last_offset = Extent("N");
  task.contract.input("queries", {Dtype::u8}, {"C"}, "bytes of all names to look up", "any bytes");
  task.contract.input("query_offsets", {Dtype::i64}, {"Q+1"}, "as name_offsets", "0 first, not decreasing, C last").last_offset = Extent("C");
  task.contract.output("file", {Dtype::i32}, {"Q"}, "the file to read from; -1 if no file declares the name");
  task.contract.output("entry", {Dtype::i64}, {"Q"}, "number k of the winning declaration; -1 if none");
  task.contract.rule("reserved_name", "a declared name is exactly __metadata__", CheckedBy::variant,
                     [](const TensorRefMap& inputs) { return check_reserved(inputs.at("names").flat<const std::uint8_t>(), inputs.at("name_offsets").flat<const std::int64_t>()); });
  const std::vector<std::string> parameters = {"names", "name_offsets", "file_offsets", "queries", "query_offsets", "file", "entry"};
  task.variants = {
      {"reference", Kernel({bind(reference::resolve_tensor_files, parameters)}), "std::unordered_map of string views, filled in file order, later declarations overwriting"},
      {"baseline", Kernel({bind(baseline::resolve_tensor_files, parameters)}), "each query compared with every name of every file"},
      {"cpu", Kernel({bind(cpu::resolve_tensor_files, parameters)}), "64 bytes hashed a step, a table of tags probed a line at a time, in batches on all threads"},
  };
  const auto workload = [](std::string name, std::int64_t N, std::int64_t F, double seconds, const std::string& note) {
    return Workload{std::move(name),
                    "N = Q = " + std::to_string(N) + ", F = " + std::to_string(F) + ": names as in a large mixture-of-experts checkpoint, 5 % of the declarations copies of random others; 95 % of the queries declared" + note,
                    {[N, F](Random& random) { return checkpoint(random, N, N, F); }},
                    seconds};
  };
  task.workloads = {
      workload("smoke", 512, 7, 0.0005, ""),
      workload("standard", 40960, 163, 2.4, ""),
      workload("large", 91991, 163, 15, "; a published 671-billion-parameter checkpoint"),
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate = exact_gate();
  task.gate.text = "exact, both outputs";
  task.floor = [](const TensorRefMap& inputs) {
    const auto size = [&](const char* name) { return static_cast<double>(inputs.at(name).bytes()); };
    return Floor{size("names") + size("name_offsets") + size("file_offsets") + size("queries") + size("query_offsets") + 12.0 * static_cast<double>(inputs.at("query_offsets").size() - 1), 0};
  };
  task.floor_text = "B + C bytes of names and 8 (N+1 + F+1 + Q+1) of offsets read once, 12 Q written";
  return task;
}

}  // namespace
}  // namespace safetensors_shard_route

namespace tasks {
const Task& safetensors_shard_route() {
  static const Task task = faibench::safetensors_shard_route::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
