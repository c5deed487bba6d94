// Tensors and rejections of the one-process form.
#include <algorithm>
#include <string>

#include "collectives/all2all_tensor_redistribute/one_process.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

using Numbers = std::span<const std::int64_t>;

constexpr std::int64_t most_elements = std::int64_t{1} << 62, most_ranks = 65536;

Numbers numbers(const TensorRefMap& inputs, const std::string& name) { return inputs.at(name).flat<const std::int64_t>(); }

/// -1: more than `most`.
std::int64_t product(Numbers factors, std::int64_t most) {
  if (std::ranges::find(factors, 0) != factors.end()) return 0;
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (factor > most / result) return -1;
    result *= factor;
  }
  return result;
}

Rejected check_shape(const TensorRefMap& inputs) {
  const Numbers shape = numbers(inputs, "shape");
  if (shape.size() > 8) return reject("bad_shape", "shape", 8, std::to_string(shape[8]), "a tensor has at most 8 dims, not " + std::to_string(shape.size()));
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < 0) return reject("bad_shape", "shape", static_cast<std::int64_t>(d), std::to_string(shape[d]), "an extent is 0 or more");
  for (std::size_t d = 0; product(shape, most_elements) < 0 && d < shape.size(); ++d)
    if (product(shape.first(d + 1), most_elements) < 0) return reject("bad_shape", "shape", static_cast<std::int64_t>(d), std::to_string(shape[d]), "with it the tensor has more than 2^62 elements");
  return std::nullopt;
}

Rejected check_mesh(const TensorRefMap& inputs) {
  const Numbers mesh = numbers(inputs, "mesh");
  if (mesh.empty()) return reject("bad_mesh", "mesh", -1, "empty", "a mesh has 1 to 8 axes");
  if (mesh.size() > 8) return reject("bad_mesh", "mesh", 8, std::to_string(mesh[8]), "a mesh has at most 8 axes, not " + std::to_string(mesh.size()));
  for (std::size_t a = 0; a < mesh.size(); ++a)
    if (mesh[a] < 1) return reject("bad_mesh", "mesh", static_cast<std::int64_t>(a), std::to_string(mesh[a]), "an axis has at least 1 rank");
  for (std::size_t a = 0; a < mesh.size(); ++a)
    if (product(mesh.first(a + 1), most_ranks) < 0) return reject("bad_mesh", "mesh", static_cast<std::int64_t>(a), std::to_string(mesh[a]), "with it the mesh has more than 65536 ranks");
  return std::nullopt;
}

Rejected check_axis(const TensorRefMap& inputs) {
  const auto K = static_cast<std::int64_t>(numbers(inputs, "mesh").size());
  for (const char* name : {"src_axes", "dst_axes"}) {
    const Numbers axes = numbers(inputs, name);
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i] < 0 || axes[i] >= K) return reject("bad_axis", name, static_cast<std::int64_t>(i), std::to_string(axes[i]), "mesh axes are 0 .. " + std::to_string(K - 1));
  }
  return std::nullopt;
}

Rejected check_duplicate(const TensorRefMap& inputs) {
  for (const char* name : {"src_axes", "dst_axes"}) {
    const Numbers axes = numbers(inputs, name);
    std::array<bool, 8> seen{};
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (seen[static_cast<std::size_t>(axes[i])]) return reject("duplicate_axis", name, static_cast<std::int64_t>(i), std::to_string(axes[i]), "the axis shards something already");
      seen[static_cast<std::size_t>(axes[i])] = true;
    }
  }
  return std::nullopt;
}

Rejected check_rank_count(const TensorRefMap& inputs) {
  const std::int64_t P = product(numbers(inputs, "mesh"), most_ranks), length = inputs.at("src_offsets").size();
  if (length == P + 1) return std::nullopt;
  return reject("rank_count_mismatch", "src_offsets", -1, "of length " + std::to_string(length), "the mesh has " + std::to_string(P) + " ranks, which takes " + std::to_string(P + 1));
}

std::int64_t shard_size(const TensorRefMap& inputs, std::int64_t rank) {
  const Numbers shape = numbers(inputs, "shape"), mesh = numbers(inputs, "mesh"), axes = numbers(inputs, "src_axes"), offsets = numbers(inputs, "src_axes_offsets");
  std::array<std::int64_t, 8> coordinate{}, extents{};
  for (std::size_t a = mesh.size(); a-- > 0; rank /= mesh[a]) coordinate[a] = rank % mesh[a];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    extents[d] = shape[d];
    for (std::int64_t k = offsets[d]; k < offsets[d + 1]; ++k) {
      const auto axis = static_cast<std::size_t>(axes[static_cast<std::size_t>(k)]);
      const std::int64_t n = mesh[axis], i = coordinate[axis], chunk = extents[d] / n + (extents[d] % n != 0 ? 1 : 0);
      const bool past_the_end = chunk == 0 || i > extents[d] / chunk;  // before i*chunk, which may not fit
      extents[d] = past_the_end ? 0 : std::min(chunk, extents[d] - i * chunk);
    }
  }
  return product(Numbers(extents).first(shape.size()), most_elements);
}

Rejected check_shard_sizes(const TensorRefMap& inputs) {
  const Numbers offsets = numbers(inputs, "src_offsets");
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    const std::int64_t held = offsets[r + 1] - offsets[r], wanted = shard_size(inputs, static_cast<std::int64_t>(r));
    if (held != wanted)
      return reject("shard_size_mismatch", "src_offsets", static_cast<std::int64_t>(r) + 1, std::to_string(offsets[r + 1]),
                    "source shard " + std::to_string(r) + " has " + std::to_string(held) + " elements, the box of its rank " + std::to_string(wanted));
  }
  return std::nullopt;
}

/// Every element goes to as many ranks as the mesh axes without a dim multiply to.
std::int64_t target_elements(const TensorRefMap& inputs) {
  if (check_layout(inputs) || check_rank_count(inputs) || check_shard_sizes(inputs)) return 0;
  std::int64_t copies = product(numbers(inputs, "mesh"), most_ranks);
  for (const std::int64_t axis : numbers(inputs, "dst_axes")) copies /= numbers(inputs, "mesh")[static_cast<std::size_t>(axis)];
  return product(numbers(inputs, "shape"), most_elements) * copies;  // no element is without a place in src_data, so this is far from 2^63
}

}  // namespace

void add_layout_rules(Contract& contract) {
  contract.rule("bad_shape", "D > 8, a negative extent, or more than 2^62 elements (a zero extent makes it 0 elements, whatever the others are)", CheckedBy::runner, check_shape);
  contract.rule("bad_mesh", "K = 0, K > 8, an axis < 1, or P > 65536", CheckedBy::runner, check_mesh);
  contract.rule("bad_axis", "an entry of src_axes, then dst_axes, outside [0, K)", CheckedBy::runner, check_axis);
  contract.rule("duplicate_axis", "a mesh axis twice within src_axes, then within dst_axes (in one dim or in two)", CheckedBy::runner, check_duplicate);
}

Rejected check_layout(const TensorRefMap& inputs) {
  for (const auto& check : {check_shape, check_mesh, check_axis, check_duplicate})
    if (auto rejected = check(inputs)) return rejected;
  return std::nullopt;
}

Contract one_process_contract() {
  Contract contract;
  contract.input("shape", {Dtype::i64}, {"D"}, "global tensor shape", "D 0..8, each >= 0, at most 2^62 elements");
  contract.input("mesh", {Dtype::i64}, {"K"}, "size of each mesh axis; a rank is the row-major index of its mesh coordinate", "K 1..8, each >= 1, product P <= 65536");
  contract.input("src_axes", {Dtype::i64}, {"A"}, "for each dim the mesh axes that shard it under the source sharding, major first", "0 .. K-1, none twice");
  contract.input("src_axes_offsets", {Dtype::i64}, {"D+1"}, "dim d has src_axes[src_axes_offsets[d] .. src_axes_offsets[d+1])").last_offset = Extent("A");
  contract.input("dst_axes", {Dtype::i64}, {"B"}, "the same for the target", "0 .. K-1, none twice");
  contract.input("dst_axes_offsets", {Dtype::i64}, {"D+1"}, "as src_axes_offsets").last_offset = Extent("B");
  contract.input("src_data", {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64, Dtype::i8, Dtype::u8, Dtype::i16, Dtype::i32, Dtype::u32, Dtype::i64, Dtype::u64, Dtype::bool_}, {"S"},
                 "source shards of ranks 0 .. P-1 one after another, each row-major", "any bytes, equal ones where ranks hold the same element");
  contract.input("src_offsets", {Dtype::i64}, {"P+1"}, "shard r is src_data[src_offsets[r] .. src_offsets[r+1])", "each shard of the size of its box").last_offset = Extent("S");
  contract.output_like("dst_data", "src_data", {"T"}, "target shards of ranks 0 .. P-1 one after another, each row-major").rows = target_elements;
  contract.output("dst_offsets", {Dtype::i64}, {"P+1"}, "target shard r is dst_data[dst_offsets[r] .. dst_offsets[r+1])");
  add_layout_rules(contract);
  contract.rule("rank_count_mismatch", "the length of src_offsets is not P+1", CheckedBy::runner, check_rank_count);
  contract.rule("shard_size_mismatch", "the size of source shard r is not that of its box (first r reported)", CheckedBy::variant, check_shard_sizes);
  return contract;
}

}  // namespace faibench::all2all_tensor_redistribute
