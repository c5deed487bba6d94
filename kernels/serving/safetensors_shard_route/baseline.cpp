// Strings in vectors, and for each query a walk over all names of all files.
#include <string>
#include <vector>

#include "kernels/serving/safetensors_shard_route/safetensors_shard_route.h"

namespace faibench::safetensors_shard_route::baseline {

Rejected resolve_tensor_files(View<const std::uint8_t, 1> names, View<const std::int64_t, 1> name_offsets, View<const std::int64_t, 1> file_offsets, View<const std::uint8_t, 1> queries,
                              View<const std::int64_t, 1> query_offsets, View<std::int32_t, 1> file, View<std::int64_t, 1> entry) {
  const auto text = [](View<const std::uint8_t, 1> bytes, View<const std::int64_t, 1> offsets, std::int64_t i) {
    return std::string(reinterpret_cast<const char*>(bytes.data()) + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  };
  std::vector<std::vector<std::string>> files;
  for (std::int64_t f = 0; f + 1 < file_offsets.extent(0); ++f) {
    files.emplace_back();
    for (std::int64_t k = file_offsets[f]; k < file_offsets[f + 1]; ++k) {
      files.back().push_back(text(names, name_offsets, k));
      if (files.back().back() == "__metadata__") return reject("reserved_name", "names", name_offsets[k], "__metadata__", "the header's own key, declared as name " + std::to_string(k));
    }
  }
  std::vector<std::string> wanted;
  for (std::int64_t q = 0; q + 1 < query_offsets.extent(0); ++q) wanted.push_back(text(queries, query_offsets, q));

  for (std::size_t q = 0; q < wanted.size(); ++q) {
    std::int32_t found_file = -1;
    std::int64_t found_entry = -1, number = 0;
    for (std::size_t f = 0; f < files.size(); ++f)
      for (const std::string& name : files[f]) {
        if (name == wanted[q]) {
          found_file = static_cast<std::int32_t>(f);
          found_entry = number;
        }
        ++number;
      }
    file[static_cast<std::int64_t>(q)] = found_file;
    entry[static_cast<std::int64_t>(q)] = found_entry;
  }
  return std::nullopt;
}

}  // namespace faibench::safetensors_shard_route::baseline
