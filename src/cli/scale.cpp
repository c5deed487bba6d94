// faibench scale: a study over sizes, ranks and variants. The options become StudyOptions; the scale part does the rest on every rank.
#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <memory>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "scale/forecast.h"
#include "scale/plan_text.h"
#include "scale/sizes.h"
#include "scale/study.h"
#include "task/names.h"

namespace faibench {
namespace {

struct Options {
  scale::StudyOptions study;
  std::vector<std::string> tasks;
  std::int64_t chunk_limit = 0;
  bool plan_only = false;
  int ranks_per_node = 8;
  std::string simulated;
};

std::vector<std::string> typed_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Of a usual cluster, where no simulation states its own: 1 us and 10 GB/s in a node, 5 us and 12.5 GB/s between nodes, ten million and three million short messages a second.
constexpr CostModel usual_cluster{{1e-6, 5e-6}, {1e-10, 8e-11}, 0, {1e-7, 3e-7}};

// No MPI, and any number of ranks. 1 where a schedule is faulty.
int print_plan(const Options& options) {
  scale::Simulation simulation{usual_cluster, {}};
  if (!options.simulated.empty()) simulation = scale::read_simulation(options.simulated);
  const scale::Calibration prices = scale::calibrate(simulation, all_tasks());
  const std::vector<int> ranks = scale::parse_ranks(options.study.ranks.empty() ? "64,1024,65536" : options.study.ranks, std::numeric_limits<int>::max());
  if (ranks.back() > scale::most_ranks_of_a_plan) throw Error(Error::Kind::bad_input, fmt::format("--ranks: {} is more than the {} that a plan takes", ranks.back(), scale::most_ranks_of_a_plan));
  std::vector<scale::PlanRow> rows;
  for (const Task* task : options.study.tasks) {
    const std::vector<std::int64_t> sizes = options.study.sizes.empty() ? task->multi_rank->scaling->sizes : scale::parse_sizes(options.study.sizes);
    for (std::int64_t bytes : sizes) {
      for (scale::PlanRow& row : scale::plan(*task, bytes, ranks, options.ranks_per_node, prices, simulation)) rows.push_back(std::move(row));
    }
  }
  const std::vector<scale::PlanRow> held_out = scale::held_out(simulation, prices, options.study.tasks);
  fmt::print("{}", options.study.json ? scale::plan_json(rows, prices, held_out) + "\n" : scale::plan_text(rows, prices, held_out));
  return std::any_of(rows.begin(), rows.end(), [](const scale::PlanRow& row) { return !row.fault.empty(); }) ? 1 : 0;
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
  if (options.plan_only) return print_plan(options);
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
  command->add_option("--ranks", study.ranks, "List of how many ranks; default: 1, 2, 4, ... and all; of a plan 64,1024,65536")->type_name("LIST")->check(not_empty());
  command->add_option("--variants", study.variants, "Variants to time, separated by commas; default: all")->type_name("LIST")->delimiter(',');
  command->add_option("--budget", study.budget_seconds, "Most seconds of one cell: warm-up and timing of all its visits")->type_name("SECONDS")->capture_default_str()->check(between(0.01, 86400));
  command->add_option("--visits", study.visits, "How often a cell is come back to, at other times and with other buffers")->type_name("N")->capture_default_str()->check(CLI::Range(1, 100));
  command->add_option("--seed", study.seed, "Seed of the inputs and of the order of cells")->type_name("N")->capture_default_str()->check(whole_number());
  CLI::Option* out = command->add_option("--out", study.out, "Result file; default: results/scale-<pid>.h5")->type_name("FILE")->check(not_empty());
  command->add_flag("--force", study.force, "Overwrite the result file if it exists");
  out->excludes(command->add_option("--resume", study.resume, "Go on with an interrupted study: time what its journal lacks")->type_name("FILE")->check(not_empty()));
  command->add_option("--chunk-limit", options->chunk_limit, "Elements that one MPI call moves at most, to reach the path of long vectors")->type_name("N")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  CLI::Option* plan_only = command->add_flag("--plan-only", options->plan_only, "Run nothing: what the schedules send on any number of ranks, and how long that would take");
  for (const char* of_a_launch : {"--variants", "--visits", "--out", "--force", "--resume", "--chunk-limit"}) plan_only->excludes(command->get_option(of_a_launch));
  command->add_option("--ranks-per-node", options->ranks_per_node, "Ranks on a node of a plan")->type_name("N")->capture_default_str()->check(CLI::Range(1, 1 << 20))->needs(plan_only);
  command->add_option("--simulated", options->simulated, "Simulated times to set a plan's forecasts against, and the cost of messages; JSON")->type_name("FILE")->check(not_empty())->needs(plan_only);
  command->add_flag("--quiet", study.quiet, "No progress on stderr");
  command->add_flag("--json", study.json, "Print JSON instead of the table");
  command->footer(
      "Times are the slowest rank's. The file has every sample; results/read_results.py plots it.\n"
      "Exit code: 0 all cells right, 1 one was wrong or a plan's schedule faulty, 2 bad input or an output that exists, 3 everything else;\n"
      "143, 130, 1 stopped by SIGTERM, SIGINT, SIGUSR1 (--resume goes on).\n"
      "Example: mpirun -n 4 faibench scale tp_allreduce_bias_fuse --sizes 1K:16M:4 --ranks 1,2,4 --budget 0.5");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace faibench
