#include "collectives/dcp_shard_meta_merge/ranks.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "collectives/dcp_shard_meta_merge/dcp_shard_meta_merge.h"
#include "collectives/dcp_shard_meta_merge/owners.h"
#include "schedule/traffic.h"

namespace faibench::dcp_shard_meta_merge {
namespace {

constexpr const char* outputs_of_a_rank[] = {"out_names", "out_name_offsets", "total"};

/// The records of as many ranks of `whole` as fall to `rank` of `ranks`, in order.
struct Range { std::int64_t first, past; };
Range records_of(const TensorRef& rank_offsets, int rank, int ranks) {
  const auto starts = rank_offsets.flat<const std::int64_t>();
  const std::int64_t R = rank_offsets.size() - 1;
  const auto start = [&](std::int64_t r) { return starts[static_cast<std::size_t>(r * R / ranks)]; };
  return {start(rank), start(rank + 1)};
}

TensorMap shard_of(const TensorMap& whole, int rank, int ranks) {
  const Range own = records_of(whole.at("rank_offsets").ref(), rank, ranks);
  const auto ends = whole.at("name_offsets").flat<std::int64_t>();
  const std::int64_t first_byte = ends[static_cast<std::size_t>(own.first)], past_byte = ends[static_cast<std::size_t>(own.past)], N = own.past - own.first;
  TensorMap shard;
  shard.add("names", Tensor::copy_of({Dtype::u8, {past_byte - first_byte}, whole.at("names").ref().data + first_byte}));
  Tensor& own_ends = shard.add("name_offsets", Tensor(Dtype::i64, {N + 1}));
  for (std::int64_t i = 0; i <= N; ++i) own_ends.flat<std::int64_t>()[static_cast<std::size_t>(i)] = ends[static_cast<std::size_t>(own.first + i)] - first_byte;
  for (const char* name : {"offset", "length"}) shard.add(name, Tensor::copy_of({Dtype::i64, {N}, whole.at(name).ref().data + 8 * own.first}));
  shard.add("bytes_room", Tensor::scalar(whole.at("names").size()));
  shard.add("records_room", Tensor::scalar(whole.at("offset").size()));
  return shard;
}

GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs) {
  const TensorMap expected = expected_outputs(*find_task("dcp_shard_meta_merge"), whole);
  const TensorRefMap wanted = refs(expected);
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    const TensorRefMap got = refs(outputs[rank]);
    for (const char* name : outputs_of_a_rank)
      if (!got.find(name)) return Mismatch{name, {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
    if (GateResult bad = exact_outputs({whole, got, wanted, {}})) {
      bad->what += (bad->what.empty() ? "on rank " : ", on rank ") + std::to_string(rank);
      return bad;
    }
  }
  return std::nullopt;
}

std::unordered_map<std::string_view, std::int64_t> sizes_by_name(const TensorMap& merged) {
  const char* const names = reinterpret_cast<const char*>(merged.at("out_names").data());
  const auto ends = merged.at("out_name_offsets").flat<std::int64_t>(), total = merged.at("total").flat<std::int64_t>();
  std::unordered_map<std::string_view, std::int64_t> sizes;
  for (std::size_t t = 0; t < total.size(); ++t) sizes.emplace(std::string_view(names + ends[t], static_cast<std::size_t>(ends[t + 1] - ends[t])), total[t]);
  return sizes;
}

/// What the rank that lacks most must be sent: names that it has no record of, and sizes that its own records do not reach.
Floor wire_floor(const TensorMap& whole, int ranks) {
  const Task& task = *find_task("dcp_shard_meta_merge");
  const TensorMap merged = expected_outputs(task, refs(whole));
  const auto wanted = sizes_by_name(merged);
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    TensorMap shard = shard_of(whole, rank, ranks), own;
    own.add("rank_offsets", Tensor::of<std::int64_t>({2}, {0, shard.at("offset").size()}));
    for (const char* name : {"names", "name_offsets", "offset", "length"}) own.add(name, std::move(shard.at(name)));
    const TensorMap merged_here = expected_outputs(task, refs(own));
    const auto known = sizes_by_name(merged_here);
    std::int64_t lacking = 0;
    for (const auto& [name, size] : wanted) {
      const auto found = known.find(name);
      if (found == known.end()) lacking += static_cast<std::int64_t>(name.size()) + 8;
      else if (found->second < size) lacking += 8;
    }
    most = std::max(most, lacking);
  }
  return {static_cast<double>(most), 0};
}

/// Names of experts, each on one rank: nothing is known elsewhere, all must travel. As many as make a merged result of about so many bytes; one at least.
std::vector<std::string> scaling_names(std::int64_t bytes) {
  std::vector<std::string> names = {expert_name(0)};
  std::int64_t size = static_cast<std::int64_t>(names[0].size()) + 8;
  for (;;) {
    std::string next = expert_name(static_cast<std::int64_t>(names.size()));
    const std::int64_t more = static_cast<std::int64_t>(next.size()) + 8;
    if (size + more / 2 > bytes) return names;
    size += more;
    names.push_back(std::move(next));
  }
}

/// The messages of `mpi`, after ranks have agreed that they may send.
std::shared_ptr<const Schedule> scaling_schedule(std::int64_t bytes, const NodeMap& nodes) {
  const std::vector<std::string> names = scaling_names(bytes);
  const std::int64_t P = nodes.ranks(), T = static_cast<std::int64_t>(names.size());
  std::vector<std::int64_t> first_name, count, name_bytes;
  for (std::int64_t r = 0; r <= P; ++r) first_name.push_back(r * T / P);
  for (std::int64_t r = 0; r < P; ++r) {
    const auto first = names.begin() + first_name[static_cast<std::size_t>(r)], past = names.begin() + first_name[static_cast<std::size_t>(r) + 1];
    count.push_back(past - first);
    name_bytes.push_back(std::accumulate(first, past, std::int64_t{0}, [](std::int64_t sum, const std::string& name) { return sum + static_cast<std::int64_t>(name.size()); }));
  }
  const std::int64_t block = block_bytes(std::ranges::max(count), std::ranges::max(name_bytes));
  if (P == 1 || block <= small_bytes(nodes.ranks()) / P) return gather_schedule(std::vector<std::int64_t>(static_cast<std::size_t>(P), block), nodes, 1);

  std::vector<std::int32_t> owner;
  for (const std::string& name : names) owner.push_back(owner_of(entry_of(reinterpret_cast<const std::uint8_t*>(name.data()), name.size(), 0), owners_among(nodes.ranks())));
  std::vector<std::shared_ptr<const Schedule>> parts = owner_schedules(first_name, owner);
  parts.push_back(gather_schedule(std::vector<std::int64_t>(static_cast<std::size_t>(P), 2), nodes, 8));
  parts.push_back(gather_schedule(name_bytes, nodes, 1));
  parts.push_back(gather_schedule(count, nodes, 12));
  return sequence_schedule(std::move(parts));
}

MultiRank::Scaling scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {100, 1000, 4 << 10, 16 << 10, 64 << 10, 100'000, 256 << 10, 1 << 20, 4 << 20, 10'000'000, 16 << 20};
  scaling.inputs = [](Random& random, int ranks, std::int64_t bytes) { return checkpoint(random, ranks, 0, static_cast<std::int64_t>(scaling_names(bytes).size())); };
  scaling.size_of = [](const TensorMap& whole, int) { return whole.at("names").size() + 8 * whole.at("offset").size(); };
  scaling.size_text = "bytes of the merged result, names and sizes; every name on one rank only";
  scaling.bus_formula = "(P-1)/P";
  scaling.bus_factor = [](int ranks) { return static_cast<double>(ranks - 1) / ranks; };
  scaling.schedule = scaling_schedule;
  // Of equal shares, the least that the rank with the smallest can have to receive.
  scaling.bound = [](std::int64_t bytes, int ranks) {
    std::vector<std::int64_t> shares(static_cast<std::size_t>(ranks), bytes / ranks);
    for (std::int64_t r = 0; r < bytes % ranks; ++r) ++shares[static_cast<std::size_t>(r)];
    return all_gather_bound(shares);
  };
  return scaling;
}

}  // namespace

MultiRank multi_rank(const Contract& rules) {
  MultiRank form;
  form.contract.input("names", {Dtype::u8}, {"B"}, "bytes of the names of this rank's records", "any bytes");
  form.contract.input("name_offsets", {Dtype::i64}, {"N+1"}, "name of record i is names[name_offsets[i] .. name_offsets[i+1])", "0 first, increasing, B last").last_offset = Extent("B");
  form.contract.input("offset", {Dtype::i64}, {"N"}, "first byte of the shard in the flattened tensor", ">= 0");
  form.contract.input("length", {Dtype::i64}, {"N"}, "bytes of the shard", ">= 0");
  form.contract.input("bytes_room", {Dtype::i64}, {}, "room of out_names, the same on all ranks: bytes of the names of all ranks' records", ">= bytes of the distinct names");
  form.contract.input("records_room", {Dtype::i64}, {}, "room of total, the same on all ranks: records of all ranks", ">= number of distinct names");
  form.contract.output("out_names", {Dtype::u8}, {"bytes_room"}, "bytes of the distinct names of all ranks, in order of first appearance").length = "C";
  form.contract.output("out_name_offsets", {Dtype::i64}, {"records_room+1"}, "name t is out_names[out_name_offsets[t] .. out_name_offsets[t+1])").length = "E";
  form.contract.output("total", {Dtype::i64}, {"records_room"}, "size of each tensor in bytes").length = "T";
  for (const Rule& rule : rules.rules()) form.contract.rule(rule.code, rule.condition, CheckedBy::variant, rule.check);
  form.contract.rule("rank_mismatch", "bytes_room or records_room differ between ranks, or the result does not fit (all ranks report it)", CheckedBy::variant, [](const TensorRefMap&) { return Rejected(); });
  form.variants = {{"mpi_baseline", run_mpi_baseline, "serialised records of all ranks by an all-gather, then every rank merges all with lists"},
                   {"mpi", run_mpi, "own records first; equal name lists: one all-reduce; else hashes sharded over ranks, each name sent once, straight into place"}};
  form.workloads = {
      {"smoke", "20 tensors, each sharded on all of 4 ranks, or of as many as run", [](Random& random, int ranks) { return checkpoint(random, std::max(4, ranks), 20, 0); }},
      {"standard", "32 ranks' records (40000 names of experts, 96 dense names sharded over all) split by rank ranges", [](Random& random, int ranks) { return checkpoint(random, std::max(32, ranks), 96, 40000); }},
      {"large", "1024 ranks' records of the same 1024 dense names, split by rank ranges", [](Random& random, int ranks) { return checkpoint(random, std::max(1024, ranks), 1024, 0); }},
  };
  form.cases = rank_cases();
  form.identical = {"out_names", "out_name_offsets", "total"};
  form.scaling = scaling();
  form.shard = shard_of;
  form.gate = check_all_ranks;
  form.wire_floor = wire_floor;
  return form;
}

}  // namespace faibench::dcp_shard_meta_merge
