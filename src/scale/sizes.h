// What --sizes and --ranks mean. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faibench::scale {

/// "1K:64M:4" (from, to, factor; the end always among them) or a list "8,1000,64K". K, M, G are powers of 1024. Ascending, each once.
/// Throws Error(bad_input) that names the part at fault: no number, below 1 byte, past 2^50, a factor below 1.1, from after to.
std::vector<std::int64_t> parse_sizes(std::string_view text);

/// "1,2,4" or empty: 1, 2, 4, ... and `world` itself. Ascending, each once. Throws Error(bad_input) for a number below 1 or past `world`.
std::vector<int> parse_ranks(std::string_view text, int world);

/// "64 KiB", "1000 B".
std::string size_text(std::int64_t bytes);

}  // namespace faibench::scale
