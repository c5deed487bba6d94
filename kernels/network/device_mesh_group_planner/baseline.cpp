// A table of coordinates, scanned whole for every member of every group.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/network/device_mesh_group_planner/device_mesh_group_planner.h"

namespace faibench::device_mesh_group_planner::baseline {

Rejected plan_groups(View<const std::int64_t, 1> mesh_shape, View<const std::int64_t, 1> mesh_ids, View<const std::int64_t, 1> devices, View<std::int64_t, 2> coords, View<std::int64_t, 1> members,
                     View<std::int64_t, 1> member_offsets) {
  const std::int64_t K = mesh_shape.extent(0), N = mesh_ids.extent(0), Q = devices.extent(0);
  for (std::int64_t p = 0; p < N; ++p)
    if (mesh_ids[p] < 0) return reject("negative_id", "mesh_ids", p, std::to_string(mesh_ids[p]), "ids are not negative");
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted;  // id, position: equal ids stand by ascending position
  for (std::int64_t p = 0; p < N; ++p) sorted.emplace_back(mesh_ids[p], p);
  std::sort(sorted.begin(), sorted.end());
  std::int64_t duplicate = N;
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first == sorted[i - 1].first) duplicate = std::min(duplicate, sorted[i].second);
  if (duplicate < N) return reject("duplicate_id", "mesh_ids", duplicate, std::to_string(mesh_ids[duplicate]), "an earlier position has this id");

  std::vector<std::int64_t> table(static_cast<std::size_t>(N * K));
  std::array<std::int64_t, 8> at{};
  for (std::int64_t p = 0; p < N; ++p) {
    std::copy_n(at.begin(), K, table.begin() + p * K);
    for (std::int64_t a = K - 1; a >= 0; --a) {
      if (++at[static_cast<std::size_t>(a)] < mesh_shape[a]) break;
      at[static_cast<std::size_t>(a)] = 0;
    }
  }
  std::vector<std::int64_t> position(static_cast<std::size_t>(Q));
  for (std::int64_t q = 0; q < Q; ++q) {
    const auto found = std::find(mesh_ids.data(), mesh_ids.data() + N, devices[q]);
    if (found == mesh_ids.data() + N) return reject("unknown_device", "devices", q, std::to_string(devices[q]), "the mesh has no such device");
    position[static_cast<std::size_t>(q)] = found - mesh_ids.data();
  }

  std::int64_t count = 0;
  member_offsets[0] = 0;
  for (std::int64_t q = 0; q < Q; ++q) {
    const std::int64_t* const own = table.data() + position[static_cast<std::size_t>(q)] * K;
    for (std::int64_t a = 0; a < K; ++a) coords(q, a) = own[a];
    for (std::int64_t a = 0; a < K; ++a) {
      std::array<std::int64_t, 8> wanted{};
      std::copy_n(own, K, wanted.begin());
      for (std::int64_t i = 0; i < mesh_shape[a]; ++i) {
        wanted[static_cast<std::size_t>(a)] = i;
        for (std::int64_t p = 0; p < N; ++p)
          if (std::equal(wanted.begin(), wanted.begin() + K, table.begin() + p * K)) members[count++] = mesh_ids[p];
      }
      member_offsets[q * K + a + 1] = count;
    }
  }
  return std::nullopt;
}

}  // namespace faibench::device_mesh_group_planner::baseline
