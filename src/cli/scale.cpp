// faibench scale: a study over sizes, ranks and variants. The options become StudyOptions; the scale part does the rest on every rank.
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "scale/sizes.h"
#include "scale/study.h"
#include "task/names.h"

namespace faibench {
namespace {

struct Options {
  scale::StudyOptions study;
  std::vector<std::string> tasks;
  std::int64_t chunk_limit = 0;
};

std::vector<std::string> typed_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

int run(Options& options) {
  if (!options.study.sizes.empty()) (void)scale::parse_sizes(options.study.sizes);
  std::vector<std::string> known;
  for (const Task* task : all_tasks()) {
    if (task->multi_rank && task->multi_rank->scaling) known.push_back(task->name);
  }
  for (const std::string& name : options.tasks) {
    if (std::find(known.begin(), known.end(), name) == known.end()) throw unknown_name("task with a scaling study", name, known, "see faibench list");
    options.study.tasks.push_back(find_task(name));
  }
  if (options.chunk_limit > 0) setenv("FAIBENCH_CHUNK_LIMIT", std::to_string(options.chunk_limit).c_str(), 1);
  options.study.command_line = typed_words();
  return scale::run_study(options.study);
}

}  // namespace

void add_scale(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  scale::StudyOptions& study = options->study;
  CLI::App* command = app.add_subcommand("scale", "Time multi-rank tasks over sizes, ranks and variants; leave one HDF5 file");
  command->add_option("tasks", options->tasks, "Tasks to study")->required()->type_name("TASK");
  command->add_option("--sizes", study.sizes, "From:to:factor, as 1K:64M:4, or a list; default: the task's own")->type_name("SIZES")->check(not_empty());
  command->add_option("--ranks", study.ranks, "List of how many ranks; default: 1, 2, 4, ... and all")->type_name("LIST")->check(not_empty());
  command->add_option("--variants", study.variants, "Variants to time, separated by commas; default: all")->type_name("LIST")->delimiter(',');
  command->add_option("--budget", study.budget_seconds, "Most seconds of one cell")->type_name("SECONDS")->capture_default_str()->check(between(0.01, 86400));
  command->add_option("--seed", study.seed, "Seed of the inputs and of the order of cells")->type_name("N")->capture_default_str()->check(whole_number());
  CLI::Option* out = command->add_option("--out", study.out, "Result file; default: results/scale-<pid>.h5")->type_name("FILE")->check(not_empty());
  command->add_flag("--force", study.force, "Overwrite the result file if it exists");
  out->excludes(command->add_option("--resume", study.resume, "Go on with an interrupted study: time what its journal lacks")->type_name("FILE")->check(not_empty()));
  command->add_option("--chunk-limit", options->chunk_limit, "Elements that one MPI call moves at most, to reach the path of long vectors")->type_name("N")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  command->add_flag("--quiet", study.quiet, "No progress on stderr");
  command->add_flag("--json", study.json, "Print JSON instead of the table");
  command->footer(
      "Times are the slowest rank's. Exit code: 0 all cells right, 1 one was wrong, 2 bad input or an output that exists, 3 everything else.\n"
      "Example: mpirun -n 4 faibench scale tp_allreduce_bias_fuse --sizes 1K:16M:4 --ranks 1,2,4 --budget 0.5");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace faibench
