// The main job: judge a selection of the catalog on all ranks and leave one result file.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "results/record.h"
#include "task/catalog.h"
#include "tensor/error.h"

namespace faibench {

/// How a run ended, for whoever prints its closing lines. Handed out on rank 0 alone.
struct RunSummary {
  std::string file;                      ///< the result file; empty if none was written (dry run, error at the start)
  std::vector<Record> records;           ///< everything in the file: judged now or, with --resume, before
  std::int64_t asked = 0;                ///< items (task x variant) that were to be judged
  std::int64_t already_judged = 0;       ///< of them, found in the resumed run
  std::vector<std::string> not_run;      ///< "task/variant: why" of what was asked for and did not run
  std::vector<std::string> without_implementation;  ///< catalog tasks of the selection that this build does not have
  double wall_seconds = 0;
  int ranks = 1, nodes = 1;
  std::string stopped_by;                ///< "SIGTERM", "--fail-fast", ...; empty if the run went to its end
  int exit_code = 0;
};

/// What `faibench run` was asked for. Fields left empty take the resumed run's values where there is one, else the defaults named here.
struct RunOptions {
  // What to run.
  std::vector<std::string> tasks;        ///< shell globs over task names; empty: every task of the catalog that this build has
  std::vector<std::string> exclude;      ///< shell globs over task names
  std::vector<std::string> groups;       ///< shell globs over group names; empty: every group
  std::optional<std::string> workload;   ///< default "standard", of variants for GPUs "gpu" where the task has it, "smoke" with `emulate`; a task that has none of that name is "asked for and not run"
  std::vector<std::string> variants;     ///< names or globs ("peer:*"); empty: "cpu", "cuda" where a rank has a GPU, every "peer:*", and "mpi" of multi-rank tasks.
                                         ///< "cuda" where there is no GPU runs "cpu" and the record says so; "library:PATH" is a submission
  bool emulate = false;                  ///< variants for GPUs run on the emulator, on CPUs: gated on the smoke workload, neither timed nor scored
  std::vector<int> gang_sizes;           ///< ranks of multi-rank tasks; empty: all ranks, if the program runs on more than one or "mpi*" is asked for
  const Catalog* catalog = nullptr;      ///< null: embedded_catalog(). Must outlive the call
  std::string catalog_path;              ///< where it was read from, for the provenance; empty: embedded

  // How.
  std::optional<std::uint64_t> seed;     ///< default 1
  std::optional<double> budget_seconds;  ///< timed blocks of one item may take this long; default 10, 1 for smoke
  double call_limit_seconds = 0;         ///< one candidate call may take this long; 0: the judge derives it
  std::int64_t memory_limit_bytes = 0;   ///< of one candidate; 0: the judge derives it
  double gang_limit_seconds = 0;         ///< one multi-rank item may take this long; 0: 60 s + 4 budgets
  bool gate_only = false;                ///< no timed blocks
  std::vector<std::string> give_up;      ///< "task/variant[@ranks]=why": recorded as lost instead of judged; what `faibench launch` found to break the run each time
  bool fail_fast = false;                ///< hand out nothing more after the first verdict that is not `passed`
  std::string earlier;                   ///< a result file or journal whose costs order the schedule; empty: estimates

  // Where to.
  std::string out;                       ///< default results/run-<UTC>-<host>-<pid>.h5
  bool force = false;                    ///< overwrite `out` if it exists
  std::string resume;                    ///< a result file or its journal: skip what it holds, append the rest to it

  // Instead of running.
  bool dry_run = false;                  ///< print the plan (order, expected seconds, eligible ranks) and return
  bool list_cases = false;               ///< print the fixed cases of the selected tasks and return

  // What is shown. Progress and notices go to stderr, results to stdout; rank 0 alone prints.
  bool quiet = false;                    ///< no progress, no notices
  bool color = true;                     ///< colours and a moving bar where stderr is a terminal
  bool json = false;                     ///< dry_run, list_cases: JSON on stdout instead of text
  std::vector<std::string> command_line; ///< argv, for the provenance

  /// Called once on rank 0 after the last fold, before MPI ends: prints the scoreboard. Empty: run_catalog prints a closing summary on stdout.
  std::function<void(const RunSummary&)> on_finished;
};

/// Runs on every rank of an MPI launch, or alone without one: calls MPI_Init and MPI_Finalize (so at most once in a process).
/// Returns the exit code, equal on all ranks:
///   0        every gate passed and everything asked for ran
///   1        a verdict other than `passed`, something asked for that did not run, or SIGUSR1
///   2        bad input: unknown names, a launch whose world size is not what Slurm says, an output file that exists or cannot be written, a damaged file to resume
///   3        MPI, device or internal errors
///   4        a rank hangs: its watchdog ended the run, and said which one
///   130, 143 stopped by SIGINT, SIGTERM
/// Errors throw Error on rank 0 alone, when all ranks know that they are to stop; the other ranks return the code in silence.
int run_catalog(const RunOptions& options);

/// The exit code of an error that ends the program: 2 for bad input and files that cannot be read or written, 3 for everything else.
int exit_code_of(const Error& error);

}  // namespace faibench
