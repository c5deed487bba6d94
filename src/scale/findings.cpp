#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "scale/fit.h"
#include "scale/sizes.h"
#include "scale/study.h"

namespace faibench::scale {
namespace {

constexpr double tolerance = 1.05, super_linear = 1.02;

bool timed(const ScalingRow& row) { return row.verdict == "passed" && row.seconds > 0; }
// The library's all-reduce and what it is made of take f32 and add no bias: guidelines of their own.
bool is_library_call(const std::string& variant) { return variant.starts_with("library:"); }
bool is_composition(const std::string& variant) { return is_library_call(variant) && variant.find('+') != std::string::npos; }
bool is_ours(const std::string& variant) { return !variant.starts_with("peer:") && variant != "mpi_baseline" && !is_library_call(variant); }

using Curves = std::map<std::tuple<std::string, std::string, std::string, int>, std::vector<const ScalingRow*>>;
Curves curves_of(const std::vector<ScalingRow>& rows) {
  Curves curves;
  for (const ScalingRow& row : rows) {
    if (timed(row)) curves[{row.task, row.variant, row.cadence, row.ranks}].push_back(&row);
  }
  for (auto& [key, curve] : curves) std::sort(curve.begin(), curve.end(), [](const ScalingRow* a, const ScalingRow* b) { return a->bytes < b->bytes; });
  return curves;
}

// Beyond the tolerance and beyond what both medians are sure of.
bool slower(const ScalingRow& row, const ScalingRow& than) { return row.seconds > tolerance * than.seconds && row.low > than.high; }

std::string place(const ScalingRow& row) { return fmt::format("{} on {} ranks, {}, {}", row.variant, row.ranks, size_text(row.bytes), row.cadence); }

}  // namespace

std::vector<ScalingFinding> findings_of(const std::vector<ScalingRow>& rows) {
  std::vector<ScalingFinding> findings;
  for (const auto& [key, curve] : curves_of(rows)) {
    for (std::size_t i = 1; i < curve.size(); ++i) {
      if (slower(*curve[i - 1], *curve[i]))
        findings.push_back({curve[i]->task, "t(S) <= t(S')", fmt::format("{}: {:.2f} times as long as {}", place(*curve[i - 1]), curve[i - 1]->seconds / curve[i]->seconds, size_text(curve[i]->bytes))});
    }
  }
  for (const ScalingRow& row : rows) {
    if (!timed(row) || row.ranks == 1 || is_composition(row.variant)) continue;
    for (const ScalingRow& other : rows) {
      const bool composed = is_composition(other.variant);
      if (composed ? !is_ours(row.variant) && !is_library_call(row.variant) : !is_ours(row.variant) || is_ours(other.variant) || is_library_call(other.variant)) continue;
      if (!timed(other) || other.task != row.task || other.cadence != row.cadence || other.ranks != row.ranks || other.bytes != row.bytes) continue;
      if (slower(row, other))
        findings.push_back({row.task, composed ? "all-reduce <= " + other.variant.substr(8) : "ours <= library", fmt::format("{}: {:.2f} times as long as {}", place(row), row.seconds / other.seconds, other.variant)});
    }
  }
  return findings;
}

std::vector<ScalingFit> fits_of(const std::vector<ScalingRow>& rows) {
  std::vector<ScalingFit> fits;
  for (const auto& [key, curve] : curves_of(rows)) {
    std::vector<FitPoint> points;
    for (const ScalingRow* row : curve) points.push_back({static_cast<double>(row->bytes), row->seconds});
    const auto held = forecast_largest(points);
    if (!held) continue;
    for (std::size_t i = 0; i < held->fit.pieces.size(); ++i) {
      const Piece& piece = held->fit.pieces[i];
      fits.push_back({curve[0]->task, curve[0]->variant, curve[0]->cadence, curve[0]->ranks, static_cast<int>(i), piece.from_bytes, piece.to_bytes, piece.alpha, piece.beta, held->fit.max_residual,
                      held->largest.bytes, held->largest.seconds, held->forecast, held->error});
    }
  }
  return fits;
}

void add_efficiencies(std::vector<ScalingRow>& rows) {
  for (ScalingRow& row : rows) {
    for (const ScalingRow& one : rows) {
      if (!timed(row) || !timed(one) || one.ranks != 1 || one.task != row.task || one.variant != row.variant || one.cadence != row.cadence || one.bytes != row.bytes) continue;
      row.weak_efficiency = one.seconds / row.seconds;
      row.strong_efficiency = row.weak_efficiency / row.ranks;
    }
    if (row.strong_efficiency > super_linear && row.ranks > 1 && std::find(row.flags.begin(), row.flags.end(), "super_linear") == row.flags.end()) row.flags.push_back("super_linear");
  }
}

ScalingStudy merge(const std::vector<ScalingStudy>& parts) {
  ScalingStudy whole;
  std::set<std::string> keys;
  for (const ScalingStudy& part : parts) {
    for (const ScalingRow& row : part.rows) {
      if (keys.insert(row.key).second) whole.rows.push_back(row);
    }
    whole.links.insert(whole.links.end(), part.links.begin(), part.links.end());
  }
  add_efficiencies(whole.rows);
  whole.fits = fits_of(whole.rows);
  whole.findings = findings_of(whole.rows);
  return whole;
}

std::string table_text(const ScalingStudy& study) {
  std::vector<const ScalingRow*> rows;
  for (const ScalingRow& row : study.rows) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](const ScalingRow* a, const ScalingRow* b) {
    return std::tie(a->task, a->cadence, a->ranks, a->bytes, a->variant) < std::tie(b->task, b->cadence, b->ranks, b->bytes, b->variant);
  });
  std::string text;
  if (std::any_of(rows.begin(), rows.end(), [](const ScalingRow* r) { return r->oversubscribed; })) text += "OVERSUBSCRIBED: more ranks than cores; rows marked * show the scheduler's turns, not the collective.\n";
  std::string task;
  for (const ScalingRow* r : rows) {
    if (r->task != task) text += fmt::format("\n{}\n{:<10} {:>5} {:>10} {:<32} {:>11} {:>6} {:>11} {:>11} {:>9} {:>9} {:>7}\n", task = r->task, "cadence", "ranks", "S", "variant", "median us", "+-%", "p99 us", "arrival us", "alg GB/s",
                                             "bus GB/s", "x bound");
    const std::string ranks = std::to_string(r->ranks) + (r->oversubscribed ? "*" : "");
    if (!timed(*r)) {
      text += fmt::format("{:<10} {:>5} {:>10} {:<32} {}: {}\n", r->cadence, ranks, size_text(r->bytes), r->variant, r->verdict, r->detail);
      continue;
    }
    const auto or_dash = [](double value, const char* form) { return value > 0 ? fmt::format(fmt::runtime(form), value) : std::string("-"); };
    text += fmt::format("{:<10} {:>5} {:>10} {:<32} {:>11.2f} {:>6.1f} {:>11} {:>11.2f} {:>9} {:>9} {:>7}\n", r->cadence, ranks, size_text(r->bytes), r->variant, 1e6 * r->seconds, 50 * (r->high - r->low) / r->seconds,
                        or_dash(1e6 * r->p99, "{:.2f}"), 1e6 * r->arrival_skew, or_dash(r->algbw / 1e9, "{:.4g}"), or_dash(r->busbw / 1e9, "{:.4g}"), or_dash(r->bound_ratio, "{:.2f}"));
  }
  for (const ScalingFit& f : study.fits) {
    if (f.piece == 0) text += fmt::format("fit {} on {} ranks, {}: largest residual {:.0f}%, forecast of {} off by {:+.0f}%\n", f.variant, f.ranks, f.cadence, 100 * f.max_residual, size_text(static_cast<std::int64_t>(f.held_out_bytes)), 100 * f.held_out_error);
  }
  for (const ScalingFinding& f : study.findings) text += fmt::format("finding {}: {} does not hold: {}\n", f.task, f.rule, f.detail);
  return text;
}

}  // namespace faibench::scale
