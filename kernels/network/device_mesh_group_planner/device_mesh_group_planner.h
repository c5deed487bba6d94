// The devices collinear with each asked device along each axis of a mesh: the one signature of all variants.
#pragma once
#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::device_mesh_group_planner {

/// Coordinates and groups of each asked device.
///   mesh_shape [K]            sizes of the axes, checked before the call: product N, 1 <= K <= 8
///   mesh_ids [N]              device id at each position, row-major
///   devices [Q]               ids asked for
///   coords [Q, K]             mesh coordinates of each asked device
///   members [Q * sum of mesh_shape], member_offsets [Q*K+1]   list q*K + a: the ids along axis a through devices[q], by ascending coordinate
/// The variant itself rejects negative_id, duplicate_id and unknown_device, in this order, before it writes. Thread-safe.
namespace reference {
Rejected plan_groups(View<const std::int64_t, 1> mesh_shape, View<const std::int64_t, 1> mesh_ids, View<const std::int64_t, 1> devices, View<std::int64_t, 2> coords, View<std::int64_t, 1> members,
                     View<std::int64_t, 1> member_offsets);
}
namespace baseline {
Rejected plan_groups(View<const std::int64_t, 1> mesh_shape, View<const std::int64_t, 1> mesh_ids, View<const std::int64_t, 1> devices, View<std::int64_t, 2> coords, View<std::int64_t, 1> members,
                     View<std::int64_t, 1> member_offsets);
}
namespace cpu {
Rejected plan_groups(View<const std::int64_t, 1> mesh_shape, View<const std::int64_t, 1> mesh_ids, View<const std::int64_t, 1> devices, View<std::int64_t, 2> coords, View<std::int64_t, 1> members,
                     View<std::int64_t, 1> member_offsets);
}

}  // namespace faibench::device_mesh_group_planner
