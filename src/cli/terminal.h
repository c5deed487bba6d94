// What the terminal can do, and text laid out for it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace faibench {

/// Colours only on a terminal, without NO_COLOR (no-color.org), unless TERM is "dumb".
bool wants_color(int descriptor);

/// Columns of the terminal, between 80 and 160; `otherwise` where there is none.
int terminal_width(int descriptor, int otherwise = 120);

/// Paragraph broken at spaces so that no line passes `width` (longer words stand alone); every line starts with `indent` spaces. Ends in a newline.
std::string wrapped(std::string_view text, int indent, int width);

/// Rows as aligned columns, two spaces between them; what passes `width` in the last column goes on below it. Ends in a newline unless empty.
std::string columns(const std::vector<std::vector<std::string>>& rows, int indent, int width);

/// "1.5 GiB", "512 B"; "24.1 GB/s", "181 GFLOP/s"; "2.1 us".
std::string bytes_text(double bytes);
std::string rate_text(double per_second, std::string_view unit);
std::string seconds_text(double seconds);
/// Shortest of up to six significant digits: "3.16", "41666.7".
std::string number_text(double value);

}  // namespace faibench
