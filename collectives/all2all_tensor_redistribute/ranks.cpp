#include "collectives/all2all_tensor_redistribute/ranks.h"

#include <algorithm>
#include <string>

#include "collectives/all2all_tensor_redistribute/all2all_tensor_redistribute.h"
#include "collectives/all2all_tensor_redistribute/one_process.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

std::span<const std::int64_t> numbers(const TensorRefMap& inputs, const char* name) { return inputs.at(name).flat<const std::int64_t>(); }

/// The first piece of every ceil split is the largest, so rank 0 has the largest shard.
std::int64_t largest_target(const TensorRefMap& inputs) {
  if (check_layout(inputs)) return 0;
  const auto shape = numbers(inputs, "shape"), mesh = numbers(inputs, "mesh"), axes = numbers(inputs, "dst_axes"), offsets = numbers(inputs, "dst_axes_offsets");
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape)
    if (extent == 0) return 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t length = shape[d];
    for (std::int64_t i = offsets[d]; i < offsets[d + 1]; ++i) {
      const std::int64_t n = mesh[static_cast<std::size_t>(axes[static_cast<std::size_t>(i)])];
      length = length / n + (length % n > 0 ? 1 : 0);
    }
    elements *= length;
  }
  return elements;
}

Contract contract() {
  Contract contract;
  contract.input("shape", {Dtype::i64}, {"D"}, "global tensor shape, the same on all ranks", "D 0..8, each >= 0");
  contract.input("mesh", {Dtype::i64}, {"K"}, "size of each mesh axis, the same on all ranks", "K 1..8, each >= 1; the product is the number of ranks");
  contract.input("src_axes", {Dtype::i64}, {"A"}, "mesh axes that shard each dim under the source sharding, major first; the same on all ranks", "0 .. K-1, none twice");
  contract.input("src_axes_offsets", {Dtype::i64}, {"D+1"}, "where each dim's list starts").last_offset = Extent("A");
  contract.input("dst_axes", {Dtype::i64}, {"B"}, "the same for the target", "0 .. K-1, none twice");
  contract.input("dst_axes_offsets", {Dtype::i64}, {"D+1"}, "where each dim's list starts").last_offset = Extent("B");
  contract.input("src_data", {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64, Dtype::i8, Dtype::u8, Dtype::i16, Dtype::i32, Dtype::u32, Dtype::i64, Dtype::u64, Dtype::bool_}, {"S"},
                 "this rank's source shard, row-major", "as many as its box");
  TensorSpec& out = contract.output_like("dst_data", "src_data", {"T"}, "this rank's target shard; room for the largest of any rank");
  out.rows = largest_target;
  out.length = "T";
  add_layout_rules(contract);
  const auto by_all_ranks = [](const TensorRefMap&) { return Rejected(); };  // one rank's tensors do not tell
  contract.rule("rank_mismatch", "shape, mesh, axes or dtype differ between ranks (all ranks report it)", CheckedBy::variant, by_all_ranks);
  contract.rule("rank_count_mismatch", "the mesh is not of as many ranks as there are", CheckedBy::variant, by_all_ranks);
  contract.rule("shard_size_mismatch", "a rank's source shard is not of the size of its box (all ranks report the lowest such rank)", CheckedBy::variant, by_all_ranks);
  return contract;
}

/// The contract's workload for so many ranks, extents divided by `scale` where they are large. Counts of ranks that it does not name: a mesh of one axis, extents not divisible.
Layout workload(int ranks, std::int64_t scale) {
  const std::int64_t P = ranks, edge = 8192 / scale;
  if (P == 4) return {{edge, edge}, {2, 2}, {{0, 1}, {}}, {{0}, {1}}, Dtype::f32};
  if (P == 6) return {{7, 4096 / scale + 1, 31, 128}, {2, 3}, {{0}, {1}, {}, {}}, {{0}, {}, {1}, {}}, Dtype::bf16};
  if (P >= 8 && P % 8 == 0) return {{8, 4096 / scale, 32, 128}, P == 8 ? std::vector<std::int64_t>{2, 4} : std::vector<std::int64_t>{P / 8, 8}, {{0}, {1}, {}, {}}, {{0}, {}, {1}, {}}, Dtype::bf16};
  const std::int64_t odd = P <= 2 ? 0 : 1;
  return {{edge - odd, edge + odd}, {P}, {{0}, {}}, {{}, {0}}, Dtype::f32};
}

}  // namespace

MultiRank multi_rank() {
  MultiRank form;
  form.contract = contract();
  form.variants = {{"mpi_baseline", run_mpi_baseline, "all gather all shards, each slices its own"},
                   {"mpi", run_mpi, "box intersections between real partners, packed while others travel"},
                   {"mpi_registered", run_mpi_registered, "pulls from the owner's shard in shared memory, one copy", true},
                   {"peer:mpi", run_peer_mpi, "pack, MPI_Alltoallv, unpack"},
                   {"nccl", run_mpi, "the messages of mpi over NCCL", false, true}};
  form.workloads = {
      {"smoke", "the standard one with its large extents divided by 64", [](Random& random, int ranks) { return described_input(random, workload(ranks, 64)); }},
      {"standard",
       "2 ranks: mesh [2], [8192, 8192] f32 [[0], []] -> [[], [0]]; 4: mesh [2, 2], [[0, 1], []] -> [[0], [1]]; 8: mesh [2, 4], [8, 4096, 32, 128] bf16 [[0], [1], [], []] -> [[0], [], [1], []]; "
       "16 and more eights: mesh [P/8, 8], the same; 6: mesh [2, 3], [7, 4097, 31, 128], the same; others: mesh [P], [8191, 8193]",
       [](Random& random, int ranks) { return described_input(random, workload(ranks, 1)); }},
  };
  form.cases = rank_cases();
  form.scaling = rank_scaling();
  form.shard = shard_of;
  form.gate = check_all_ranks;
  form.wire_floor = wire_floor;
  return form;
}

}  // namespace faibench::all2all_tensor_redistribute
