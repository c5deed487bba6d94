// Which shard file each queried tensor name is read from: the one signature of all variants.
#pragma once
#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::safetensors_shard_route {

/// For each query, the last declaration of an equal name and the file that owns it.
///   names [B], name_offsets [N+1]      declared names, file by file; any bytes, the empty name too
///   file_offsets [F+1]                 file f declares names file_offsets[f] .. file_offsets[f+1]-1
///   queries [C], query_offsets [Q+1]   names to look up
///   file [Q], entry [Q]                file and number of the winning declaration; -1 where no name is equal
/// The offsets were checked before the call; the variant itself rejects a declared "__metadata__" as reserved_name, before it writes.
/// Reads no byte outside the inputs. Thread-safe.
namespace reference {
Rejected resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                              View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry);
}
namespace baseline {
Rejected resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                              View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry);
}
namespace cpu {
Rejected resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                              View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry);
}

}  // namespace faibench::safetensors_shard_route
