#include "scale/sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tensor/error.h"

namespace faibench::scale {
namespace {

constexpr double largest = 1125899906842624.0;  // 2^50

[[noreturn]] void refuse(std::string_view option, std::string_view part, const std::string& why) {
  throw Error(Error::Kind::bad_input, std::string(option) + ": '" + std::string(part.substr(0, 40)) + "' " + why);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

double number(std::string_view option, std::string_view part, std::string_view digits) {
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) refuse(option, part, "is no number");
  return value;
}

std::int64_t bytes_of(std::string_view part) {
  std::string_view digits = part;
  double unit = 1;
  if (!digits.empty()) {
    const std::size_t at = std::string_view("KMG").find(digits.back());
    if (at != std::string_view::npos) {
      unit = std::exp2(10.0 * static_cast<double>(at + 1));
      digits.remove_suffix(1);
    }
  }
  const double value = std::floor(number("--sizes", part, digits) * unit);
  if (value < 1) refuse("--sizes", part, "is less than one byte");
  if (value > largest) refuse("--sizes", part, "is more than 2^50 bytes");
  return static_cast<std::int64_t>(value);
}

template <class T>
std::vector<T> ascending(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

std::vector<std::int64_t> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  if (text.find(':') == std::string_view::npos) {
    for (std::string_view part : split(text, ',')) sizes.push_back(bytes_of(part));
    return ascending(std::move(sizes));
  }
  const auto parts = split(text, ':');
  if (parts.size() > 3) refuse("--sizes", text, "has more than from:to:factor");
  const std::int64_t from = bytes_of(parts[0]), to = bytes_of(parts[1]);
  const double factor = parts.size() == 3 ? number("--sizes", parts[2], parts[2]) : 2;
  if (!(factor >= 1.1)) refuse("--sizes", parts[2], "is a factor below 1.1");
  if (from > to) refuse("--sizes", text, "ends before it begins");
  for (double size = static_cast<double>(from); size < static_cast<double>(to); size *= factor) sizes.push_back(static_cast<std::int64_t>(size));
  sizes.push_back(to);
  return ascending(std::move(sizes));
}

std::vector<int> parse_ranks(std::string_view text, int world) {
  std::vector<int> ranks;
  if (text.empty()) {
    for (int n = 1; n < world; n *= 2) ranks.push_back(n);
    ranks.push_back(world);
    return ranks;
  }
  for (std::string_view part : split(text, ',')) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1) refuse("--ranks", part, "is no number of ranks");
    if (value > world) refuse("--ranks", part, "is more than the " + std::to_string(world) + " of this launch; start it with mpirun -n " + std::to_string(value));
    ranks.push_back(value);
  }
  return ascending(std::move(ranks));
}

std::string size_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < std::size(units) && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

}  // namespace faibench::scale
