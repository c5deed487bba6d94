#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "scale/fit.h"
#include "scale/sizes.h"
#include "scale/statistics.h"
#include "scale/study.h"

namespace faibench::scale {
namespace {

constexpr double super_linear = 1.02;

bool timed(const ScalingRow& row) { return row.verdict == "passed" && row.seconds > 0; }
bool lost_turns(const ScalingRow& row) { return std::ranges::any_of(row.flags, [](const std::string& flag) { return flag.starts_with("lost_turns"); }); }
using Curves = std::map<std::tuple<std::string, std::string, std::string, int>, std::vector<const ScalingRow*>>;
Curves curves_of(const std::vector<ScalingRow>& rows) {
  Curves curves;
  for (const ScalingRow& row : rows) {
    if (timed(row)) curves[{row.task, row.variant, row.cadence, row.ranks}].push_back(&row);
  }
  for (auto& [key, curve] : curves) std::sort(curve.begin(), curve.end(), [](const ScalingRow* a, const ScalingRow* b) { return a->bytes < b->bytes; });
  return curves;
}

// The pieces of the fit that `first` begins, its residuals, and how well sizes left out of it are met.
std::string fit_text(const ScalingStudy& study, const ScalingFit& first) {
  const auto same = [&](const auto& f) { return std::tie(f.task, f.variant, f.cadence, f.ranks) == std::tie(first.task, first.variant, first.cadence, first.ranks); };
  std::string text = fmt::format("fit {} on {} ranks, {}:", first.variant, first.ranks, first.cadence);
  for (const ScalingFit& f : study.fits)
    if (same(f)) text += fmt::format("{} {:.3g} us + S / {} to {}", f.piece > 0 ? "," : "", 1e6 * f.alpha, f.beta > 0 ? fmt::format("{:.3g} GB/s", 1e-9 / f.beta) : "infinity", size_text(static_cast<std::int64_t>(f.to_bytes)));
  text += fmt::format("; residuals {:.0f}% median, {:.0f}% largest (one line: {:.0f}%)", 100 * first.median_residual, 100 * first.max_residual, 100 * first.plain_max_residual);
  std::vector<double> inside;
  for (const ScalingForecast& f : study.forecasts) {
    if (!same(f)) continue;
    if (!f.beyond) inside.push_back(std::abs(f.error));
    else if (!inside.empty())
      text += fmt::format("; left out, {} sizes: {:.0f}% median, {:.0f}% largest, {} {:+.0f}%; extrapolated to {}: {:+.0f}%", inside.size(), 100 * median_of(inside), 100 * *std::ranges::max_element(inside),
                          size_text(static_cast<std::int64_t>(first.held_out_bytes)), 100 * first.held_out_error, size_text(static_cast<std::int64_t>(f.bytes)), 100 * f.error);
  }
  return text + "\n";
}

}  // namespace

void add_fits(ScalingStudy& study) {
  study.fits.clear();
  study.forecasts.clear();
  for (const auto& [key, curve] : curves_of(study.rows)) {
    std::vector<FitPoint> points;
    for (const ScalingRow* row : curve)
      if ((row->oversubscribed || !lost_turns(*row)) && (points.empty() || static_cast<double>(row->bytes) > points.back().bytes)) points.push_back({static_cast<double>(row->bytes), row->seconds});
    if (points.size() < 3) continue;
    const Fit fit = fit_pieces(points), plain = fit_pieces(points, 1);
    ScalingForecast named;
    for (const LeftOut& out : leave_one_out(points)) {
      study.forecasts.push_back({curve[0]->task, curve[0]->variant, curve[0]->cadence, curve[0]->ranks, out.point.bytes, out.point.seconds, out.forecast, out.error, out.beyond, out.named});
      if (out.named) named = study.forecasts.back();
    }
    for (std::size_t i = 0; i < fit.pieces.size(); ++i) {
      const Piece& piece = fit.pieces[i];
      study.fits.push_back({curve[0]->task, curve[0]->variant, curve[0]->cadence, curve[0]->ranks, static_cast<int>(i), piece.from_bytes, piece.to_bytes, piece.alpha, piece.beta, fit.max_residual, named.bytes, named.seconds,
                            named.forecast, named.error, fit.median_residual, plain.pieces[0].alpha, plain.pieces[0].beta, plain.max_residual});
    }
  }
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
  add_fits(whole);
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
  const auto lost = [](const ScalingRow* r) { return lost_turns(*r) && !r->oversubscribed; };
  if (std::ranges::any_of(rows, lost)) text += "DISTURBED: ranks lost their cores to other programs in nearly all samples of the rows marked !; they enter no fit and no guideline.\n";
  std::string task;
  for (const ScalingRow* r : rows) {
    if (r->task != task) text += fmt::format("\n{}\n{:<10} {:>5} {:>10} {:<32} {:>11} {:>6} {:>11} {:>11} {:>9} {:>9} {:>7}\n", task = r->task, "cadence", "ranks", "S", "variant", "median us", "+-%", "p99 us", "arrival us", "alg GB/s",
                                             "bus GB/s", "x bound");
    const std::string ranks = std::to_string(r->ranks) + (r->oversubscribed ? "*" : lost(r) ? "!" : "");
    if (!timed(*r)) {
      text += fmt::format("{:<10} {:>5} {:>10} {:<32} {}: {}\n", r->cadence, ranks, size_text(r->bytes), r->variant, r->verdict, r->detail);
      continue;
    }
    const auto or_dash = [](double value, const char* form) { return value > 0 ? fmt::format(fmt::runtime(form), value) : std::string("-"); };
    text += fmt::format("{:<10} {:>5} {:>10} {:<32} {:>11.2f} {:>6} {:>11} {:>11.2f} {:>9} {:>9} {:>7}\n", r->cadence, ranks, size_text(r->bytes), r->variant, 1e6 * r->seconds, r->samples < samples_of_an_interval ? "-" : fmt::format("{:.1f}", 50 * (r->high - r->low) / r->seconds),
                        or_dash(1e6 * r->p99, "{:.2f}"), 1e6 * r->arrival_skew, or_dash(r->algbw / 1e9, "{:.4g}"), or_dash(r->busbw / 1e9, "{:.4g}"), or_dash(r->bound_ratio, "{:.2f}"));
  }
  for (const ScalingFit& f : study.fits)
    if (f.piece == 0) text += fit_text(study, f);
  for (const std::string& line : grouped_text(study.findings)) text += line + "\n";
  if (std::ranges::any_of(rows, [](const ScalingRow* r) { return r->oversubscribed; })) text += "No guideline was tested where ranks outnumber cores.\n";
  return text;
}

}  // namespace faibench::scale
