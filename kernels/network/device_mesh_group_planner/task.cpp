// device_mesh_group_planner: contract, reference, workloads, gate, floor. The cases are in cases.cpp.
#include "task/task.h"

#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "kernels/network/device_mesh_group_planner/cases.h"
#include "kernels/network/device_mesh_group_planner/device_mesh_group_planner.h"

namespace faibench {
namespace device_mesh_group_planner {
namespace {

using Ints = std::span<const std::int64_t>;
constexpr std::int64_t most_devices = 1 << 24;

Ints ints(const TensorRefMap& inputs, const char* name) { return inputs.at(name).flat<const std::int64_t>(); }

Rejected check_negative(Ints ids) {
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (ids[p] < 0) return reject("negative_id", "mesh_ids", static_cast<std::int64_t>(p), std::to_string(ids[p]), "it must not be negative");
  return std::nullopt;
}

Rejected check_duplicate(Ints ids) {
  std::unordered_set<std::int64_t> seen;
  for (std::size_t p = 0; p < ids.size(); ++p)
    if (!seen.insert(ids[p]).second) return reject("duplicate_id", "mesh_ids", static_cast<std::int64_t>(p), std::to_string(ids[p]), "it equals an earlier entry");
  return std::nullopt;
}

Rejected check_known(Ints ids, Ints devices) {
  const std::unordered_set<std::int64_t> known(ids.begin(), ids.end());
  for (std::size_t q = 0; q < devices.size(); ++q)
    if (!known.contains(devices[q])) return reject("unknown_device", "devices", static_cast<std::int64_t>(q), std::to_string(devices[q]), "it is not in mesh_ids");
  return std::nullopt;
}

/// Number of positions, or the first axis at which it passes the limit, as -1 - axis. Axes are at least 1.
std::int64_t positions_of(Ints shape) {
  std::int64_t product = 1;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] > most_devices / product) return -1 - static_cast<std::int64_t>(a);
    product *= shape[a];
  }
  return product;
}

void add_rules(Contract& contract) {
  contract.rule("empty_mesh", "K = 0", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    if (!ints(inputs, "mesh_shape").empty()) return std::nullopt;
    return reject("empty_mesh", "mesh_shape", -1, "empty", "a mesh has at least one axis");
  });
  contract.rule("too_many_axes", "K > 8", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const std::size_t K = ints(inputs, "mesh_shape").size();
    if (K <= 8) return std::nullopt;
    return reject("too_many_axes", "mesh_shape", -1, "of length " + std::to_string(K), "a mesh has at most 8 axes");
  });
  contract.rule("bad_axis_size", "mesh_shape[a] < 1", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const Ints shape = ints(inputs, "mesh_shape");
    for (std::size_t a = 0; a < shape.size(); ++a)
      if (shape[a] < 1) return reject("bad_axis_size", "mesh_shape", static_cast<std::int64_t>(a), std::to_string(shape[a]), "an axis has at least one position");
    return std::nullopt;
  });
  contract.rule("mesh_too_large", "product of mesh_shape > 2^24", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const Ints shape = ints(inputs, "mesh_shape");
    const std::int64_t product = positions_of(shape);
    if (product >= 0) return std::nullopt;
    return reject("mesh_too_large", "mesh_shape", -1 - product, std::to_string(shape[static_cast<std::size_t>(-1 - product)]), "with it the product of the sizes passes 2^24");
  });
  contract.rule("size_mismatch", "length of mesh_ids is not the product of mesh_shape", CheckedBy::runner, [](const TensorRefMap& inputs) -> Rejected {
    const std::int64_t product = positions_of(ints(inputs, "mesh_shape"));
    const auto length = static_cast<std::int64_t>(ints(inputs, "mesh_ids").size());
    if (length == product) return std::nullopt;
    return reject("size_mismatch", "mesh_ids", -1, "of length " + std::to_string(length), "the mesh has " + std::to_string(product) + " positions");
  });
  contract.rule("negative_id", "mesh_ids[p] < 0", CheckedBy::variant, [](const TensorRefMap& inputs) { return check_negative(ints(inputs, "mesh_ids")); });
  contract.rule("duplicate_id", "mesh_ids[p] equals an earlier entry", CheckedBy::variant, [](const TensorRefMap& inputs) { return check_duplicate(ints(inputs, "mesh_ids")); });
  contract.rule("unknown_device", "devices[q] is not in mesh_ids", CheckedBy::variant, [](const TensorRefMap& inputs) { return check_known(ints(inputs, "mesh_ids"), ints(inputs, "devices")); });
}

/// Members of all lists; 0 for a mesh that a rule rejects.
std::int64_t member_count(const TensorRefMap& inputs) {
  const Ints shape = ints(inputs, "mesh_shape");
  if (shape.empty() || shape.size() > 8) return 0;
  for (const std::int64_t size : shape)
    if (size < 1) return 0;
  if (positions_of(shape) != static_cast<std::int64_t>(ints(inputs, "mesh_ids").size())) return 0;
  return static_cast<std::int64_t>(ints(inputs, "devices").size()) * std::accumulate(shape.begin(), shape.end(), std::int64_t{0});
}

}  // namespace

Rejected reference::plan_groups(View<const std::int64_t, 1> mesh_shape, View<const std::int64_t, 1> mesh_ids, View<const std::int64_t, 1> devices, View<std::int64_t, 2> coords, View<std::int64_t, 1> members,
                               View<std::int64_t, 1> member_offsets) {
  if (Rejected rejected = check_negative(mesh_ids.flat())) return rejected;
  if (Rejected rejected = check_duplicate(mesh_ids.flat())) return rejected;
  if (Rejected rejected = check_known(mesh_ids.flat(), devices.flat())) return rejected;
  std::unordered_map<std::int64_t, std::int64_t> position;
  for (std::int64_t p = 0; p < mesh_ids.extent(0); ++p) position[mesh_ids[p]] = p;
  const std::int64_t K = mesh_shape.extent(0);
  std::int64_t count = 0;
  member_offsets[0] = 0;
  for (std::int64_t q = 0; q < devices.extent(0); ++q) {
    const std::int64_t p = position.at(devices[q]);
    std::int64_t stride = mesh_ids.extent(0);
    for (std::int64_t a = 0; a < K; ++a) {
      stride /= mesh_shape[a];
      coords(q, a) = p / stride % mesh_shape[a];
      for (std::int64_t i = 0; i < mesh_shape[a]; ++i) members[count++] = mesh_ids[p + (i - coords(q, a)) * stride];
      member_offsets[q * K + a + 1] = count;
    }
  }
  return std::nullopt;
}

namespace {

Task make() {
  Task task;
  task.name = "device_mesh_group_planner";
  task.group = "network";
  task.summary = "Lists for each asked device and each mesh axis the devices of its communication group";
  task.semantics =
      "The position of a device is the p with mesh_ids[p] = id, row-major. Its group along axis a are the ids at the positions with its coordinates on every other axis, by ascending coordinate on axis a, "
      "itself among them. Every axis has its list, also one of size 1; lists come in query order, axis 0 first, nothing shared.";
  task.contract.input("mesh_shape", {Dtype::i64}, {"K"}, "size of each logical axis", "K 1..8, each >= 1, product N <= 2^24");
  task.contract.input("mesh_ids", {Dtype::i64}, {"N"}, "global device id at each mesh position, row-major", "distinct, >= 0");
  task.contract.input("devices", {Dtype::i64}, {"Q"}, "device ids asked for, in any order, repeats allowed", "each in mesh_ids");
  task.contract.output("coords", {Dtype::i64}, {"Q", "K"}, "mesh coordinates of each asked device");
  task.contract.output("members", {Dtype::i64}, {"M"}, "list q*K + a: group of devices[q] along axis a; M = Q * sum of mesh_shape").rows = member_count;
  task.contract.output("member_offsets", {Dtype::i64}, {"Q*K+1"}, "list j is members[member_offsets[j] .. member_offsets[j+1])");
  add_rules(task.contract);
  const std::vector<std::string> parameters = {"mesh_shape", "mesh_ids", "devices", "coords", "members", "member_offsets"};
  task.variants = {
      {"reference", Kernel({bind(reference::plan_groups, parameters)}), "std::unordered_map from id to position, then index arithmetic"},
      {"baseline", Kernel({bind(baseline::plan_groups, parameters)}), "the table of coordinates scanned whole for every member"},
      {"cpu", Kernel({bind(cpu::plan_groups, parameters)}), "dense or hashed id table, each axis laid out contiguously once, groups copied on all threads"},
  };
  task.workloads = {
      {"smoke", "mesh 4 x 4, ids 0..15, all devices", {[](Random&) { return mesh_input({4, 4}, first_ids(16), first_ids(16)); }}, 0.0001},
      {"standard", "mesh 16 x 16 x 16, ids a random permutation of 0..4095, all devices in ascending order", {[](Random& random) { return mesh_input({16, 16, 16}, random.permutation(4096), first_ids(4096)); }}, 1.0},
      {"sparse", "mesh 8 x 8 x 8 x 8, random ids below 2^62, 4096 queries at random with repeats", {[](Random& random) { return sparse_input(random, {8, 8, 8, 8}, 4096); }}, 1.0},
  };
  task.cases = cases();
  task.random_case = random_input;
  task.gate = exact_gate();
  task.floor = [](const TensorRefMap& inputs) {
    const Ints shape = ints(inputs, "mesh_shape");
    const auto lists = static_cast<std::int64_t>(shape.size()) + std::accumulate(shape.begin(), shape.end(), std::int64_t{0});
    return Floor{8.0 * static_cast<double>(ints(inputs, "devices").size()) * static_cast<double>(lists), 0};
  };
  task.floor_text = "8 Q (K + sum of mesh_shape) bytes written";
  return task;
}

}  // namespace
}  // namespace device_mesh_group_planner

namespace tasks {
const Task& device_mesh_group_planner() {
  static const Task task = faibench::device_mesh_group_planner::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
