#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/scoreboard.h"
#include "report/wording.h"

namespace faibench {
namespace {

// Text between tags and in quoted attributes.
std::string escaped(std::string_view text) {
  std::string result;
  for (char c : wording::printable(text)) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

constexpr std::string_view style = R"css(
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #1c2733; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25em .8em .25em 0; border-bottom: 1px solid #dde3ea; vertical-align: top; }
th { font-weight: 600; } .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.passed { color: #1a7f37; } .failed { color: #b42318; font-weight: 600; } .open { color: #9a6700; }
pre { background: #f4f6f8; padding: .6em; overflow-x: auto; margin: .3em 0; } .quiet { color: #5b6b7b; }
svg text { font: 12px system-ui, sans-serif; fill: #1c2733; } svg .failed { fill: #b42318; } svg .open { fill: #9a6700; }
)css";

std::string_view class_of(const Record& r) {
  if (r.verdict == Verdict::passed) return "passed";
  return wording::was_not_run(r) || r.verdict == Verdict::noisy ? "open" : "failed";
}

std::string table(const std::vector<const Record*>& records) {
  std::string html = "<table>\n<thead><tr><th>task</th><th>variant</th><th>workload</th><th>verdict</th>";
  for (const char* title : {"speedup", "95% interval", "anchor", "score", "baseline", "time", "of the floor", "blocks"}) html += fmt::format("<th class=\"number\">{}</th>", title);
  html += "</tr></thead>\n<tbody>\n";
  for (const Record* r : records) {
    const bool timed = wording::is_timed(*r);
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td>", escaped(r->task), escaped(wording::variant(*r)) + (r->ranks > 1 ? fmt::format(", {} ranks", r->ranks) : ""),
                        escaped(r->workload), class_of(*r), escaped(wording::verdict(*r)));
    const std::string score = wording::counts(*r) ? fmt::format("{:.3f}", r->verdict == Verdict::passed ? r->score : 0.0) : "-";
    for (const std::string& cell :
         {timed ? wording::ratio(r->speedup) : "-", timed ? wording::ratio(r->speedup_low) + " to " + wording::ratio(r->speedup_high) : "-",
          r->performance ? wording::ratio(r->ref_speedup) : "-", score, wording::duration(r->baseline_seconds), wording::duration(r->seconds), wording::floor_share(*r),
          r->blocks > 0 ? std::to_string(r->blocks) : "-"})
      html += "<td class=\"number\">" + cell + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n";
}

// A logarithmic axis from `low` to `high` over the plot's width.
struct LogAxis {
  double low = 1, high = 2;
  double left = 0, width = 1;
  [[nodiscard]] double at(double value) const { return left + width * (std::log(std::clamp(value, low, high)) - std::log(low)) / (std::log(high) - std::log(low)); }
};

LogAxis axis_for(const std::vector<const Record*>& records, double left, double width) {
  LogAxis axis{0.8, 2, left, width};
  for (const Record* r : records) {
    for (double value : {r->ref_speedup, wording::is_timed(*r) ? r->speedup_low : 0, wording::is_timed(*r) ? r->speedup : 0}) {
      if (value > 0 && std::isfinite(value)) axis.low = std::min(axis.low, value * 0.8);
    }
    for (double value : {r->ref_speedup, wording::is_timed(*r) ? r->speedup_high : 0, wording::is_timed(*r) ? r->speedup : 0}) {
      if (value > 0 && std::isfinite(value)) axis.high = std::max(axis.high, value * 1.15);
    }
  }
  return axis;
}

std::string ticks(const LogAxis& axis, double bottom) {
  std::string svg;
  const bool wide = axis.high / axis.low > 300;  // then powers of ten alone leave room for their labels
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high; decade *= 10) {
    for (double digit : {1.0, 2.0, 5.0}) {
      const double value = decade * digit;
      if (value < axis.low || value > axis.high || (wide && digit != 1)) continue;
      svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"0\" x2=\"{0:.1f}\" y2=\"{1:.0f}\" stroke=\"{2}\"/>", axis.at(value), bottom, value == 1 ? "#7b8794" : "#e4e9ee");
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:g}x</text>\n", axis.at(value), bottom + 16, value);
    }
  }
  return svg;
}

std::string bar(const Record& r, const LogAxis& axis, double middle) {
  if (!wording::is_timed(r))
    return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n", class_of(r), axis.at(1) + 6, middle + 4, escaped(wording::verdict(r)));
  const double one = axis.at(1), end = axis.at(r.speedup);
  std::string svg = fmt::format("<g><title>{}, {}: {} ({} to {})</title>", escaped(r.task), escaped(wording::variant(r)), wording::ratio(r.speedup), wording::ratio(r.speedup_low), wording::ratio(r.speedup_high));
  svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"14\" fill=\"#4878a8\"/>", std::min(one, end), middle - 7, std::abs(end - one));
  svg += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.0f}\" x2=\"{:.1f}\" y2=\"{:.0f}\" stroke=\"#111\" stroke-width=\"1.5\"/>", axis.at(r.speedup_low), middle, axis.at(r.speedup_high), middle);
  for (double x : {axis.at(r.speedup_low), axis.at(r.speedup_high)})
    svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\" stroke=\"#111\" stroke-width=\"1.5\"/>", x, middle - 4, middle + 4);
  return svg + "</g>\n";
}

std::string chart(const std::vector<const Record*>& all) {
  std::vector<const Record*> shown;
  for (const Record* r : all)
    if (r->performance && !r->emulated) shown.push_back(r);
  if (shown.empty()) return "";
  constexpr double row = 24, left = 330, width = 620;
  const double bottom = row * static_cast<double>(shown.size());
  const LogAxis axis = axis_for(shown, left, width);
  std::string svg = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" role=\"img\" aria-label=\"Speedups over the baseline on a logarithmic axis\">\n", left + width + 30, bottom + 28);
  svg += ticks(axis, bottom);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Record& r = *shown[i];
    const double middle = row * (static_cast<double>(i) + 0.5);
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{} {}</text>\n", left - 12, middle + 4, escaped(r.task), escaped(wording::variant(r)));
    svg += bar(r, axis, middle);
    if (r.ref_speedup > 0)
      svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.0f}\" x2=\"{0:.1f}\" y2=\"{2:.0f}\" stroke=\"#c44e52\" stroke-width=\"3\"><title>anchor {3}</title></line>\n", axis.at(r.ref_speedup),
                         middle - 10, middle + 10, wording::ratio(r.ref_speedup));
  }
  return "<h2>Speedup over the baseline</h2>\n<p class=\"quiet\">Logarithmic. Bar: median; black: 95% interval; red: the anchor, where the score begins.</p>\n" + svg + "</svg>\n";
}

std::string failures(const std::vector<const Record*>& records) {
  std::string html;
  for (const Record* r : records) {
    if (r->verdict == Verdict::passed) continue;
    html += fmt::format("<dt>{} {} {}: <span class=\"{}\">{}</span></dt>\n<dd>{}", escaped(r->task), escaped(wording::variant(*r)), escaped(r->workload), class_of(*r), escaped(wording::verdict(*r)), escaped(r->detail));
    std::string tail;
    for (const std::string& line : wording::last_lines(r->stderr_tail, 12)) tail += escaped(line) + "\n";
    if (!tail.empty()) html += "<pre>" + tail + "</pre>";
    html += "</dd>\n";
  }
  return html.empty() ? "" : "<h2>Not passed</h2>\n<dl>\n" + html + "</dl>\n";
}

std::string notes(const std::vector<const Record*>& records) {
  std::string html;
  for (const Record* r : records) {
    std::string text;
    if (!r->asked_variant.empty() && r->asked_variant != r->variant) text = "asked for " + r->asked_variant + ", ran " + r->variant;
    for (const std::string& flag : r->flags) text += (text.empty() ? "" : "; ") + flag;
    if (!r->note.empty()) text += (text.empty() ? "" : "; ") + r->note;
    if (!text.empty()) html += fmt::format("<li>{} {}: {}</li>\n", escaped(r->task), escaped(wording::variant(*r)), escaped(text));
  }
  return html.empty() ? "" : "<h2>Notes</h2>\n<ul>\n" + html + "</ul>\n";
}

std::string fact(std::string_view name, std::string_view value) { return value.empty() ? "" : fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(name), escaped(value)); }

std::string rate(double per_second, std::string_view unit) { return per_second > 0 ? fmt::format("{:.4g} {}", per_second / 1e9, unit) : ""; }

std::string provenance_section(const Provenance& p) {
  std::string html = "<h2>Provenance</h2>\n<table>\n<tbody>\n" + fact("version", p.version) + fact("commit", p.commit) + fact("compiler", p.compiler) + fact("flags", p.flags) +
                     fact("build type", p.build_type) + fact("HDF5", p.hdf5) + fact("MPI", p.mpi) + fact("CUDA toolkit", p.cuda) + fact("NCCL", p.nccl) + fact("command line", p.command_line) +
                     fact("started", p.started) + fact("seed", std::to_string(p.seed)) + fact("ranks", std::to_string(p.world_size)) + fact("launcher", p.launcher) + fact("Slurm job", p.slurm_job_id);
  for (const auto& [name, value] : p.environment) html += fact(name, value);
  html += "</tbody>\n</table>\n";
  for (const HostFacts& h : p.hosts) {
    std::string ranks, gpus;
    for (int rank : h.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    for (const std::string& gpu : h.gpus) gpus += (gpus.empty() ? "" : ", ") + gpu;
    html += "<h2>Host " + escaped(h.name) + "</h2>\n<table>\n<tbody>\n" + fact("processor", h.cpu_model) + fact("instruction sets", h.isa) + fact("topology", h.topology) + fact("system", h.system) +
            fact("memory", h.memory_bytes > 0 ? fmt::format("{:.1f} GiB", static_cast<double>(h.memory_bytes) / 1073741824.0) : "") + fact("GPUs", gpus) + fact("GPU driver", h.gpu_driver) +
            fact("ranks", ranks) + fact("copy, measured", rate(h.copy_bytes_per_second, "GB/s")) + fact("copy in caches, measured", rate(h.cache_copy_bytes_per_second, "GB/s")) +
            fact("multiply-adds, measured", rate(h.operations_per_second, "Gflop/s")) + fact("hand-shake, measured", h.handshake_seconds > 0 ? wording::duration(h.handshake_seconds) : "") +
            fact("noise floor, measured", h.noise_floor > 0 ? fmt::format("{:.2f}%", 100 * h.noise_floor) : "") + "</tbody>\n</table>\n";
  }
  return html;
}

}  // namespace

std::string html_report(const std::vector<Record>& records, const Provenance& provenance) {
  const std::vector<const Record*> order = wording::in_order(records);
  const Summary s = summarize(records);
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>faibench scoreboard</title>\n<style>";
  html += style;
  html += "</style>\n</head>\n<body>\n<h1>faibench scoreboard</h1>\n";
  html += fmt::format("<p>{} verdicts: <span class=\"passed\">{} passed</span>, <span class=\"failed\">{} failed</span>, <span class=\"open\">{} not run</span>. Mean score <strong>{:.3f}</strong> over all {}, whatever is not passed counting 0.",
                      s.records, s.passed, s.failed, s.not_run, s.mean_score, s.records);
  if (s.timed > 0) html += fmt::format(" Geometric mean speedup <strong>{}</strong> over the {} timed and passed; {} not passed are not in it.", wording::ratio(s.geometric_mean_speedup), s.timed, s.failed + s.not_run);
  if (s.emulated > 0) html += " " + escaped(wording::emulated_line(s.emulated, s.emulated_passed)) + ".";
  html += "</p>\n";
  if (!provenance.machine_class.empty()) html += "<p class=\"quiet\">" + escaped(provenance.machine_class) + "</p>\n";
  html += order.empty() ? "<p>No verdicts.</p>\n" : table(order);
  html += chart(order) + failures(order) + notes(order) + provenance_section(provenance);
  return html + "</body>\n</html>\n";
}

}  // namespace faibench
