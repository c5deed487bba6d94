// faibench report RUN: the scoreboard of a finished or interrupted run, on the terminal, as HTML or as JSON; or scaling studies, several of them as one.
#include <unistd.h>

#include <fmt/core.h>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/terminal.h"
#include "report/html.h"
#include "report/scoreboard.h"
#include "results/run_file.h"
#include "results/scaling.h"
#include "scale/study.h"

namespace faibench {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string html;
  bool force = false, json = false, no_color = false;
};

// Written beside and renamed, so that a full disk leaves the old page or none.
void write_page(const std::string& page, const std::filesystem::path& path, bool force) {
  const std::string name = path.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error(Error::Kind::bad_input, name + ": is a folder; name a file");
  if (!force && std::filesystem::exists(path, ignored)) throw Error(Error::Kind::bad_input, name + ": exists already; --force overwrites it");
  const std::string beside = name + ".part" + std::to_string(getpid());
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  if (!file) throw Error(Error::Kind::io, name + ": cannot be written: " + std::strerror(errno));
  file << page;
  file.close();
  if (!file) {
    const int why = errno;
    std::filesystem::remove(beside, ignored);
    throw Error(Error::Kind::io, name + ": cannot be written: " + std::strerror(why));
  }
  std::error_code failed;
  std::filesystem::rename(beside, path, failed);
  if (!failed) return;
  std::filesystem::remove(beside, ignored);
  throw Error(Error::Kind::io, name + ": cannot be written: " + failed.message());
}

// Nothing for a run; all files must be studies where there are several.
std::optional<ScalingStudy> study_in(const std::vector<std::string>& paths) {
  std::vector<ScalingStudy> parts;
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool is_run_file = std::filesystem::path(path).extension() != ".jsonl" && std::filesystem::exists(path, ignored);
    if (auto part = is_run_file ? read_scaling_study(path) : std::nullopt) parts.push_back(std::move(*part));
    else if (paths.size() == 1) return std::nullopt;
    else throw Error(Error::Kind::bad_input, path + ": is no result file of a scaling study, and only those are shown as one; report runs one at a time");
  }
  return scale::merge(parts);
}

int report_study(const ScalingStudy& study, const Options& options) {
  if (!options.html.empty()) throw Error(Error::Kind::bad_input, "--html shows runs; results/read_results.py FILE... --plot-scaling TASK PNG draws studies");
  if (options.json) fmt::print("{}\n", to_json(study));
  else fmt::print("{}", scale::table_text(study));
  return 0;
}

int report(const Options& options) {
  if (const auto study = study_in(options.runs)) return report_study(*study, options);
  const RunContents run = read_run(options.runs.front());
  if (!options.html.empty()) {
    write_page(html_report(run.records, run.provenance), options.html, options.force);
    if (!options.json) fmt::print("{} written\n", options.html);
  }
  if (options.json) {
    fmt::print("{}\n", scoreboard_json(run.records, run.provenance));
  } else if (options.html.empty()) {
    ScoreboardOptions board;
    board.width = terminal_width(STDOUT_FILENO, 160);  // a file or a pipe gets every column
    board.colour = !options.no_color && wants_color(STDOUT_FILENO);
    fmt::print("{}", print_scoreboard(run.records, run.provenance, board));
  }
  return 0;
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Print the scoreboard of a run, or scaling studies as one, from their files");
  command->add_option("run", options->runs, "Result file RUN.h5, or its journal RUN.jsonl (also while the run goes on); files of faibench scale, shown as one study")->required()->type_name("RUN");
  command->add_option("--html", options->html, "Write the scoreboard as one self-contained HTML page instead")->type_name("FILE")->check(not_empty());
  command->add_flag("--force", options->force, "Overwrite the HTML page if it exists");
  command->add_flag("--json", options->json, "Print JSON for programs");
  command->add_flag("--no-color", options->no_color, "No colours, also on a terminal");
  command->footer(
      "Exit code: 0 printed (whatever the verdicts), 2 a file that is damaged, missing or exists already, or cannot be written.\n"
      "Example: faibench report results/run.h5 --html run.html");
  command->callback([options, &exit_code] { exit_code = report(*options); });
}

}  // namespace faibench
