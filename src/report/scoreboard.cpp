#include "report/scoreboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "report/wording.h"

namespace faibench {
namespace {

struct Column {
  std::string title;
  bool right = false;
  int give_up = 0;  ///< of the columns present, the highest goes first when the line is too long; 0 stays
  std::function<std::string(const Record&)> cell;
};

// The columns read `records` for as long as they are used.
std::vector<Column> columns_for(const std::vector<const Record*>& records) {
  const auto differs = [&](auto member) { return std::any_of(records.begin(), records.end(), [&](const Record* r) { return r->*member != records.front()->*member; }); };
  std::vector<Column> columns;
  columns.push_back({"task", false, 0, [](const Record& r) { return wording::printable(r.task); }});
  columns.push_back({"variant", false, 0, [](const Record& r) { return wording::variant(r); }});
  if (!records.empty() && differs(&Record::workload)) columns.push_back({"workload", false, 0, [](const Record& r) { return wording::printable(r.workload); }});
  if (std::any_of(records.begin(), records.end(), [](const Record* r) { return r->ranks > 1; }))
    columns.push_back({"ranks", true, 0, [](const Record& r) { return std::to_string(r.ranks); }});
  columns.push_back({"verdict", false, 0, [](const Record& r) { return wording::printable(name_of(r.verdict)); }});
  columns.push_back({"speedup", true, 0, [](const Record& r) { return wording::is_timed(r) ? wording::ratio(r.speedup) : "-"; }});
  columns.push_back({"interval", true, 1, [](const Record& r) { return wording::is_timed(r) ? wording::interval(r) : "-"; }});
  columns.push_back({"anchor", true, 2, [](const Record& r) { return r.performance ? wording::ratio(r.ref_speedup) : "-"; }});
  columns.push_back({"score", true, 0, [](const Record& r) { return wording::counts(r) ? fmt::format("{:.3f}", r.verdict == Verdict::passed ? r.score : 0.0) : "-"; }});
  columns.push_back({"time", true, 3, [](const Record& r) { return wording::duration(r.seconds); }});
  columns.push_back({"floor", true, 5, [](const Record& r) { return wording::floor_share(r); }});
  // Both were timed against the baseline block by block: the ratio of speedups is less noisy than that of times.
  if (std::any_of(records.begin(), records.end(), [&](const Record* r) { return wording::peer_of(records, *r); }))
    columns.push_back({"of peer", true, 4, [&records](const Record& r) {
                         const Record* peer = wording::peer_of(records, r);
                         return peer ? wording::ratio(r.speedup / peer->speedup) : "-";
                       }});
  return columns;
}

std::string shortened(const std::string& text, std::size_t width) { return text.size() <= width ? text : text.substr(0, width - 1) + "~"; }

struct Layout {
  std::vector<Column> columns;
  std::vector<std::size_t> widths;
};

// Fits the table into `width` columns: first the task names shrink (to 24), then the least needed columns go; the names take back what room is left, or shrink on.
Layout lay_out(const std::vector<const Record*>& records, std::size_t width) {
  Layout layout{columns_for(records), {}};
  for (const Column& c : layout.columns) {
    std::size_t widest = c.title.size();
    for (const Record* r : records) widest = std::max(widest, c.cell(*r).size());
    layout.widths.push_back(std::min<std::size_t>(widest, 40));
  }
  const std::size_t natural = layout.widths[0];
  const auto total = [&] {
    std::size_t sum = 2 * (layout.widths.size() - 1);
    for (std::size_t w : layout.widths) sum += w;
    return sum;
  };
  const auto shrink_task = [&](std::size_t least) {
    if (total() > width) layout.widths[0] = std::max(std::min(least, layout.widths[0]), layout.widths[0] - std::min(layout.widths[0], total() - width));
  };
  shrink_task(24);
  while (total() > width) {
    const auto goes = std::max_element(layout.columns.begin(), layout.columns.end(), [](const Column& a, const Column& b) { return a.give_up < b.give_up; });
    if (goes->give_up == 0) break;
    layout.widths.erase(layout.widths.begin() + (goes - layout.columns.begin()));
    layout.columns.erase(goes);
  }
  if (total() < width) layout.widths[0] = std::min(natural, layout.widths[0] + width - total());
  shrink_task(12);
  return layout;
}

std::string_view colour_of(const Record& record) {
  if (record.verdict == Verdict::passed) return "\x1b[32m";
  return wording::was_not_run(record) || record.verdict == Verdict::noisy ? "\x1b[33m" : "\x1b[31m";
}

std::string line_of(const Layout& layout, const std::function<std::string(const Column&)>& cell_of, std::string_view colour) {
  std::string line;
  for (std::size_t i = 0; i < layout.columns.size(); ++i) {
    const Column& column = layout.columns[i];
    const std::string cell = shortened(cell_of(column), layout.widths[i]);
    std::string padded = column.right ? fmt::format("{:>{}}", cell, layout.widths[i]) : fmt::format("{:<{}}", cell, layout.widths[i]);
    if (!colour.empty() && column.title == "verdict") padded = std::string(colour) + padded + "\x1b[0m";
    line += (i ? "  " : "") + padded;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Breaks at spaces; later lines are indented. A word longer than a line is left whole, so that it can be copied.
std::string wrapped(const std::string& text, std::size_t width, const std::string& indent) {
  std::string result, line = text.substr(0, text.find_first_not_of(' ') == std::string::npos ? text.size() : text.find_first_not_of(' '));
  bool empty = true;
  for (std::size_t at = line.size(); at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (!empty && line.size() + 1 + end - at > width) {
      result += line + "\n";
      line = indent;
      empty = true;
    }
    line += (empty ? "" : " ") + text.substr(at, end - at);
    empty = false;
    at = std::min(text.find_first_not_of(' ', end), text.size());
  }
  return result + line + "\n";
}

std::string failures(const std::vector<const Record*>& records, std::size_t width) {
  std::string text;
  for (const Record* r : records) {
    if (r->verdict == Verdict::passed) continue;
    std::string line = "  " + wording::printable(r->task) + " " + wording::variant(*r) + " " + wording::printable(r->workload) + ": " + wording::verdict(*r);
    if (!r->detail.empty()) line += ": " + wording::printable(r->detail);
    text += wrapped(line, width, "      ");
    for (const std::string& last : wording::last_lines(r->stderr_tail, 3)) text += "      | " + shortened(last, std::max<std::size_t>(width - 8, 20)) + "\n";
  }
  return text.empty() ? "" : "\nNot passed\n" + text;
}

std::string notes(const std::vector<const Record*>& records, std::size_t width) {
  std::string text;
  for (const Record* r : records) {
    std::string line;
    if (!r->asked_variant.empty() && r->asked_variant != r->variant) line = "asked for " + wording::printable(r->asked_variant) + ", ran " + wording::printable(r->variant);
    for (const std::string& flag : r->flags) line += (line.empty() ? "" : "; ") + wording::printable(flag);
    if (!r->note.empty()) line += (line.empty() ? "" : "; ") + wording::printable(r->note);
    if (!line.empty()) text += wrapped("  " + wording::printable(r->task) + " " + wording::variant(*r) + ": " + line, width, "      ");
  }
  return text.empty() ? "" : "\nNotes\n" + text;
}

std::string heading(const Provenance& p) {
  std::string text = "faibench " + p.version + (p.commit.empty() ? "" : " (" + p.commit + ")");
  if (!p.machine_class.empty()) text += " on " + wording::printable(p.machine_class);
  text += fmt::format("; {} host{}, {} rank{}, seed {}", p.hosts.size(), p.hosts.size() == 1 ? "" : "s", p.world_size, p.world_size == 1 ? "" : "s", p.seed);
  if (!p.started.empty()) text += "; " + p.started;
  return text;
}

std::string summary_text(const Summary& s, std::size_t width) {
  const std::string emulated = s.emulated > 0 ? wrapped(wording::emulated_line(s.emulated, s.emulated_passed), width, "  ") : "";
  if (s.records == 0 && s.emulated > 0) return emulated;
  std::string text = fmt::format("{} verdict{}: {} passed, {} failed, {} not run\n", s.records, s.records == 1 ? "" : "s", s.passed, s.failed, s.not_run);
  text += fmt::format("mean score {:.3f} over all {}, whatever is not passed counting 0\n", s.mean_score, s.records);
  if (s.timed > 0)
    text += wrapped(fmt::format("geometric mean speedup {} over the {} timed and passed; {} not passed {} not in it", wording::ratio(s.geometric_mean_speedup), s.timed,
                                s.failed + s.not_run, s.failed + s.not_run == 1 ? "is" : "are"),
                    width, "  ");
  return text + emulated;
}

}  // namespace

Summary summarize(const std::vector<Record>& records) {
  Summary s;
  double scores = 0, logs = 0;
  for (const Record& r : records) {
    if (r.emulated) {
      ++s.emulated;
      if (r.verdict == Verdict::passed) ++s.emulated_passed;
    }
    if (!wording::counts(r)) continue;
    ++s.records;
    if (r.verdict == Verdict::passed) {
      ++s.passed;
      scores += r.score;
    } else {
      ++(wording::was_not_run(r) ? s.not_run : s.failed);
    }
    if (wording::is_timed(r)) {
      ++s.timed;
      logs += std::log(r.speedup);
    }
  }
  if (s.records > 0) s.mean_score = scores / s.records;
  if (s.timed > 0) s.geometric_mean_speedup = std::exp(logs / s.timed);
  return s;
}

std::string print_scoreboard(const std::vector<Record>& records, const Provenance& provenance, const ScoreboardOptions& options) {
  const std::size_t width = static_cast<std::size_t>(std::max(options.width, 80));
  const std::vector<const Record*> order = wording::in_order(records);
  std::string text = wrapped(heading(provenance), width, "  ") + "\n";
  if (order.empty()) return text + "no verdicts\n";
  const Layout layout = lay_out(order, width);
  const std::string header = line_of(layout, [](const Column& c) { return c.title; }, "");
  text += header + std::string(header.size() - 1, '-') + "\n";
  for (const Record* r : order) text += line_of(layout, [&](const Column& c) { return c.cell(*r); }, options.colour ? colour_of(*r) : "");
  return text + failures(order, width) + notes(order, width) + "\n" + summary_text(summarize(records), width);
}

std::string scoreboard_json(const std::vector<Record>& records, const Provenance& provenance) {
  using Json = nlohmann::ordered_json;
  const Summary s = summarize(records);
  Json json;
  json["format"] = "faibench-scoreboard/1";
  json["summary"] = {{"records", s.records},       {"passed", s.passed}, {"failed", s.failed}, {"not_run", s.not_run},
                     {"mean_score", s.mean_score}, {"timed", s.timed},   {"geometric_mean_speedup", s.geometric_mean_speedup},
                     {"emulated", s.emulated},     {"emulated_passed", s.emulated_passed}};
  json["records"] = Json::array();
  const std::vector<const Record*> order = wording::in_order(records);
  for (const Record* record : order) {
    Json one = Json::parse(to_json(*record));
    one.erase("samples");
    if (const Record* peer = wording::peer_of(order, *record)) {
      one["peer"] = peer->variant;
      one["speedup_over_peer"] = record->speedup / peer->speedup;
    }
    json["records"].push_back(std::move(one));
  }
  json["provenance"] = Json::parse(to_json(provenance));
  return json.dump(2) + "\n";
}

}  // namespace faibench
