// faibench launch: starts a run on N ranks and sees it through deaths, hangs and lost hosts.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/option_checks.h"
#include "launch/stamp.h"
#include "launch/supervisor.h"
#include "launch/sweep.h"
#include "tensor/error.h"

namespace faibench {
namespace {

constexpr double sweep_seconds = 8;

struct Options {
  LaunchOptions launch;
  std::string sweep;
};

void pass_on(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = write(STDERR_FILENO, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody listens any more
    at += static_cast<std::size_t>(n);
  }
}

int launch(Options& options) {
  if (!options.sweep.empty()) {
    sweep(options.sweep, sweep_seconds);
    return 0;
  }
  std::error_code error;
  options.launch.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) throw Error(Error::Kind::io, "/proc/self/exe: " + error.message());
  const JobCommand command(options.launch);
  return supervise(command, {.say = [](const std::string& line) { pass_on("faibench: launch: " + line + "\n"); }, .pass_on = pass_on});
}

}  // namespace

void add_launch(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  LaunchOptions& launching = options->launch;
  launching.hang_after_seconds = hang_after_from_environment();
  CLI::App* command = app.add_subcommand("launch", "Start a run or study on N ranks, see it through deaths and hangs, go on where it broke");
  command->add_option("job", launching.job, "After --: run or scale, and its options")->type_name("WORD");
  command->add_option("-n", launching.ranks, "Ranks")->type_name("N")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  command->add_option("--hostfile", launching.hostfile, "Hosts to start on, for mpirun")->type_name("FILE")->check(CLI::ExistingFile);
  command->add_option("--launcher", launching.launcher, "mpirun or srun, with options of its own in one word: 'mpirun --bind-to none'")->type_name("COMMAND")->capture_default_str()->check(not_empty());
  command->add_option("--hang-after", launching.hang_after_seconds, "A rank may show no progress within a phase for this long; also $FAIBENCH_HANG_AFTER")
      ->type_name("SECONDS")->capture_default_str()->check(between(1, 86400));
  command->add_option("--retries", launching.retries, "What was in flight when the job broke is tried again this often, then recorded as lost")->type_name("N")->capture_default_str()->check(CLI::Range(0, 1 << 20));
  command->add_option("--sweep", options->sweep, "End what a job left on this host")->group("");
  command->footer(
      "A rank that dies or hangs is named with its host; what is left of the job is ended on every host, and it goes on over its journal. SIGTERM, SIGINT and SIGUSR1 stop it cleanly.\n"
      "Exit code: 0 as the job's own, which is handed on; 4 where no launch gets anywhere; 143, 130, 1 stopped by SIGTERM, SIGINT, SIGUSR1 (--resume goes on).\n"
      "Example: faibench launch -n 8 --hostfile hosts --launcher 'mpirun --map-by numa --bind-to numa' -- run --out results/tuesday.h5");
  command->callback([options, &exit_code] { exit_code = launch(*options); });
}

}  // namespace faibench
