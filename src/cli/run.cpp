// faibench run: the main job. The options become RunOptions; the cluster part does the rest on every rank.
#include "cluster/run.h"

#include <unistd.h>

#include <fmt/core.h>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/selection.h"
#include "cli/terminal.h"
#include "judge/device_library.h"
#include "report/scoreboard.h"
#include "results/run_file.h"
#include "task/names.h"

namespace faibench {
namespace {

struct Options {
  RunOptions run;
  std::string catalog;
  double memory_limit_mib = 0;
  bool no_color = false;
};

// As it was typed, for the provenance.
std::vector<std::string> typed_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Names are checked before MPI starts: a typing error costs nothing.
void check_names(const RunOptions& run, const Catalog& catalog) {
  (void)select(catalog, {run.tasks, run.exclude, run.groups});
  for (const std::string& variant : run.variants) check_variant(variant);
  if (run.workload) check_workload(*run.workload);
  if (run.emulate && !find_device_library(DeviceKind::emulated)) throw Error(Error::Kind::bad_input, "--emulate: " + no_device_library(DeviceKind::emulated));
}

void print_list(const char* title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  fmt::print("{}\n", title);
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

void print_closing(const RunSummary& summary, const Options& options) {
  Provenance provenance;
  if (!summary.file.empty()) provenance = read_run(summary.file).provenance;
  if (options.run.json) {
    fmt::print("{}\n", scoreboard_json(summary.records, provenance));
    return;
  }
  ScoreboardOptions board;
  board.width = terminal_width(STDOUT_FILENO, 160);  // a file or a pipe gets every column
  board.colour = options.run.color && wants_color(STDOUT_FILENO);
  fmt::print("{}", print_scoreboard(summary.records, provenance, board));
  print_list("Asked for and not run:", summary.not_run);
  if (!summary.without_implementation.empty())
    fmt::print("{} more task{} of the selection {} no implementation in this build; 'faibench list' shows which.\n", summary.without_implementation.size(),
               summary.without_implementation.size() == 1 ? "" : "s", summary.without_implementation.size() == 1 ? "has" : "have");
  if (!summary.stopped_by.empty()) fmt::print("Stopped by {}; 'faibench run --resume {}' goes on from here.\n", summary.stopped_by, summary.file);
  if (summary.already_judged > 0) fmt::print("{} of {} were judged before.\n", summary.already_judged, summary.asked);
  fmt::print("{} rank{} on {} node{}, {}.\n", summary.ranks, summary.ranks == 1 ? "" : "s", summary.nodes, summary.nodes == 1 ? "" : "s", seconds_text(summary.wall_seconds));
  if (!summary.file.empty()) fmt::print("Results: {}\n", summary.file);
}

int run(Options& options) {
  const Catalog catalog = catalog_from(options.catalog);
  check_names(options.run, catalog);
  options.run.catalog = &catalog;
  options.run.command_line = typed_words();
  options.run.catalog_path = options.catalog;
  options.run.memory_limit_bytes = static_cast<std::int64_t>(options.memory_limit_mib * 1048576.0);
  options.run.color = !options.no_color && wants_color(STDERR_FILENO);
  bool printed = true;
  options.run.on_finished = [&](const RunSummary& summary) {  // runs while other ranks wait: must not throw
    try {
      print_closing(summary, options);
      std::fflush(stdout);
    } catch (const std::exception& error) {
      fmt::print(stderr, "faibench: the scoreboard cannot be printed: {}\n", error.what());
      printed = false;
    }
  };
  const int exit_code = run_catalog(options.run);
  return printed || exit_code != 0 ? exit_code : 3;
}

void add_selection(CLI::App& command, Options& options) {
  RunOptions& run = options.run;
  command.add_option("--tasks", run.tasks, "Only tasks whose name matches this shell glob; may be repeated; default: all that this build has")->type_name("GLOB")->allow_extra_args(false);
  command.add_option("--exclude", run.exclude, "Leave out tasks whose name matches; may be repeated")->type_name("GLOB")->allow_extra_args(false);
  command.add_option("--group", run.groups, "Only tasks of this group; may be repeated")->type_name("GROUP")->allow_extra_args(false);
  command.add_option("--workload", run.workload, "Sizes to run: smoke, standard, gpu or a task's own; default: standard, gpu for variants that run on one, smoke with --emulate")->type_name("NAME");
  command.add_option("--variant", run.variants, "Variant to judge, a glob, or library:PATH for your own; may be repeated; default: cpu, cuda where there is a GPU, mpi and peer:* where a task has them")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_flag("--emulate", run.emulate, "Run cuda variants on CPUs, a thread after another, and gate them on small sizes: errors named to the thread, no times, no score");
  command.add_option("--ranks", run.gang_sizes, "Ranks that a multi-rank task runs on; may be repeated; default: all")->type_name("N")->allow_extra_args(false)->check(CLI::Range(1, 1 << 20));
  command.add_option("--catalog", options.catalog, "Read this catalog file; default: the one built in")->type_name("FILE")->check(not_empty());
}

void add_judging(CLI::App& command, Options& options) {
  RunOptions& run = options.run;
  command.add_option("--seed", run.seed, "Seed of every random input; default: 1")->type_name("N")->check(whole_number());
  command.add_option("--budget", run.budget_seconds, "Timed blocks of one task may take this long; default: 10, 1 for smoke")->type_name("SECONDS")->check(between(0.01, 86400));
  command.add_option("--call-limit", run.call_limit_seconds, "One call of a variant may take this long; default: from the workload")->type_name("SECONDS")->check(between(0.001, 86400));
  command.add_option("--memory-limit", options.memory_limit_mib, "A variant may allocate this much; default: from the tensors' size")->type_name("MIB")->check(between(1, 1e9));
  command.add_flag("--gate-only", run.gate_only, "Check the gates and time nothing");
  command.add_flag("--fail-fast", run.fail_fast, "Start nothing more after the first verdict that is not passed");
  command.add_option("--give-up", run.give_up, "Record this item as lost instead of judging it, as TASK/VARIANT[@RANKS]=WHY; may be repeated; faibench launch says it of what broke the run each time")
      ->type_name("ITEM")->allow_extra_args(false);
  command.add_option("--earlier", run.earlier, "Take expected durations from this earlier run, to order the work")->type_name("RUN")->check(not_empty());
}

void add_output(CLI::App& command, Options& options) {
  RunOptions& run = options.run;
  command.add_option("--out", run.out, "Result file; default: results/run-<time>-<host>-<pid>.h5")->type_name("FILE")->check(not_empty());
  command.add_flag("--force", run.force, "Overwrite the result file if it exists");
  CLI::Option* resume = command.add_option("--resume", run.resume, "Go on with an interrupted run: judge what its file or journal lacks")->type_name("RUN")->check(not_empty());
  command.get_option("--out")->excludes(resume);
  command.add_flag("--dry-run", run.dry_run, "Print what would be judged, in which order, and stop");
  command.add_flag("--list-cases", run.list_cases, "Print the fixed cases of the chosen tasks and stop");
  command.add_flag("--quiet", run.quiet, "No progress and no notices on stderr");
  command.add_flag("--no-color", options.no_color, "No colours, also on a terminal");
  command.add_flag("--json", run.json, "Print JSON for programs instead of the scoreboard, plan or cases");
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Gate, time and score the catalog on all ranks; leave one HDF5 file");
  add_selection(*command, *options);
  add_judging(*command, *options);
  add_output(*command, *options);
  command->footer(
      "Exit code: 0 every gate passed and all that was asked for ran, 1 not so, 2 bad input or an output that exists or cannot be written, 3 everything else, 4 a rank hangs;\n"
      "130, 143 stopped by SIGINT, SIGTERM (what was judged stays judged: --resume).\n"
      "Example: mpirun -n 4 faibench run --tasks 'moe_*' --workload smoke");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace faibench
