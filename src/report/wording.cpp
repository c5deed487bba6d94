#include "report/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace faibench::wording {
namespace {

// Three significant digits without an exponent where a person would not write one.
std::string three_digits(double value) {
  if (value >= 99.95) return value < 1e6 ? fmt::format("{:.0f}", value) : fmt::format("{:.2e}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  if (value >= 0.9995) return fmt::format("{:.2f}", value);
  return value >= 0.001 ? fmt::format("{:.3f}", value) : fmt::format("{:.1e}", value);
}

}  // namespace

std::string ratio(double value) { return value > 0 && std::isfinite(value) ? three_digits(value) + "x" : "-"; }

std::string interval(const Record& record) {
  const auto end = [](double value) { return value > 0 && std::isfinite(value) ? three_digits(value) : "?"; };
  return end(record.speedup_low) + ".." + end(record.speedup_high);
}

std::string duration(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return "-";
  for (const auto& [unit, size] : {std::pair{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}})
    if (seconds >= 0.9995 * size) return three_digits(seconds / size) + " " + unit;
  return three_digits(seconds / 1e-9) + " ns";
}

std::string floor_share(const Record& record) {
  if (!(record.floor_seconds > 0) || !(record.seconds > 0)) return "-";
  const double percent = 100 * record.floor_seconds / record.seconds;
  return percent < 0.95 ? fmt::format("{:.1f}%", percent) : fmt::format("{:.0f}%", percent);
}

std::string verdict(const Record& record) {
  std::string text(name_of(record.verdict));
  if (record.verdict != Verdict::passed && !record.reason.empty()) text += " (" + printable(record.reason) + ")";
  return text;
}

std::string printable(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    // C1 controls (U+0080 to U+009F) are the two bytes C2 80 to C2 9F.
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    line += c1 || c < 0x20 || c == 0x7f ? ' ' : static_cast<char>(c);
  }
  return line;
}

std::vector<std::string> last_lines(std::string_view text, std::size_t count) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = printable(text.substr(start, end - start));
    if (line.find_first_not_of(' ') != std::string::npos) lines.push_back(std::move(line));
    start = end + 1;
  }
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

std::string variant(const Record& record) { return printable(record.variant) + (record.emulated ? " (emulated)" : ""); }

std::string emulated_line(int emulated, int passed) {
  return fmt::format("{} variant{} for GPUs emulated on CPUs, neither timed nor scored: {} passed, {} did not", emulated, emulated == 1 ? "" : "s", passed, emulated - passed);
}

bool counts(const Record& record) { return !record.variant.starts_with("peer:") && !record.emulated; }
bool is_timed(const Record& record) { return record.verdict == Verdict::passed && record.performance && record.speedup > 0 && std::isfinite(record.speedup); }
bool was_not_run(const Record& record) { return record.verdict == Verdict::skipped || record.verdict == Verdict::lost; }

const Record* peer_of(const std::vector<const Record*>& all, const Record& record) {
  if (!counts(record) || !is_timed(record)) return nullptr;
  const Record* fastest = nullptr;
  for (const Record* other : all) {
    const bool same = std::tie(other->task, other->workload, other->ranks) == std::tie(record.task, record.workload, record.ranks);
    if (same && !counts(*other) && is_timed(*other) && (!fastest || other->speedup > fastest->speedup)) fastest = other;
  }
  return fastest;
}

std::vector<const Record*> in_order(const std::vector<Record>& records) {
  std::vector<const Record*> order;
  for (const Record& record : records) order.push_back(&record);
  std::stable_sort(order.begin(), order.end(), [](const Record* a, const Record* b) {
    return std::tie(a->group, a->task, a->workload, a->ranks, a->variant) < std::tie(b->group, b->task, b->workload, b->ranks, b->variant);
  });
  return order;
}

}  // namespace faibench::wording
