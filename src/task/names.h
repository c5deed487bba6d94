// Names that people type: which known ones are near, and the error for one that is not known.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tensor/error.h"

namespace faibench {

/// Insertions, deletions, replacements and swaps of neighbours that turn one into the other.
int edit_distance(std::string_view a, std::string_view b);

/// Up to `most` known names that resemble `name`, nearest first; those that contain it count as near. May be empty.
std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& known, std::size_t most = 3);

/// "unknown task 'flash_atn': did you mean flash_causal_attn_prefill? ('faibench list' shows all)"
Error unknown_name(const std::string& kind, std::string_view name, const std::vector<std::string>& known, const std::string& where_all_are);

/// The text without what a terminal would obey: anything but printable ASCII becomes '?'.
std::string printable(std::string_view text);

}  // namespace faibench
