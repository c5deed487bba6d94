#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace faibench {
namespace {

std::string scaled(double value, const char* const* units, int count, double step) {
  int unit = 0;
  while (value >= step && unit + 1 < count) {
    value /= step;
    ++unit;
  }
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return buffer;
}

}  // namespace

bool wants_color(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(descriptor) && !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

int terminal_width(int descriptor, int otherwise) {
  winsize size{};
  if (!isatty(descriptor) || ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return std::clamp<int>(size.ws_col, 80, 160);
}

std::string wrapped(std::string_view text, int indent, int width) {
  std::string out, line(static_cast<std::size_t>(indent), ' ');
  bool empty = true;
  const auto flush = [&] {
    out += line + "\n";
    line.assign(static_cast<std::size_t>(indent), ' ');
    empty = true;
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!empty && line.size() + 1 + word.size() > static_cast<std::size_t>(width)) flush();
    if (!word.empty()) {
      if (!empty) line += ' ';
      line += word;
      empty = false;
    }
    if (end < text.size() && text[end] == '\n') flush();
    at = end + 1;
  }
  if (!empty) flush();
  return out;
}

std::string columns(const std::vector<std::vector<std::string>>& rows, int indent, int width) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t c = 0; c + 1 < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c + 1 < row.size(); ++c) line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    const std::string last = row.empty() ? "" : row.back();
    if (line.size() + last.size() <= static_cast<std::size_t>(width) || line.size() + 20 > static_cast<std::size_t>(width)) {
      line += last;
    } else {
      const std::string below = wrapped(last, static_cast<int>(line.size()), width);
      line += below.substr(line.size(), below.size() - line.size() - 1);
    }
    const std::size_t end = line.find_last_not_of(' ');
    out += line.substr(0, end == std::string::npos ? 0 : end + 1) + "\n";
  }
  return out;
}

std::string bytes_text(double bytes) {
  static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(bytes, units, 6, 1024);
}

std::string rate_text(double per_second, std::string_view unit) {
  static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  std::string text = scaled(per_second, prefixes, 6, 1000);
  return text + std::string(unit) + "/s";
}

std::string seconds_text(double seconds) {
  char buffer[48];
  if (seconds < 1e-6) std::snprintf(buffer, sizeof buffer, "%.0f ns", seconds * 1e9);
  else if (seconds < 1e-3) std::snprintf(buffer, sizeof buffer, "%.3g us", seconds * 1e6);
  else if (seconds < 1) std::snprintf(buffer, sizeof buffer, "%.3g ms", seconds * 1e3);
  else std::snprintf(buffer, sizeof buffer, "%.3g s", seconds);
  return buffer;
}

std::string number_text(double value) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

}  // namespace faibench
