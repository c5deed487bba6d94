#include "cluster/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "cluster/launch.h"
#include "cluster/preparation.h"
#include "cluster/rank_loop.h"
#include "cluster/stop_signals.h"
#include "cluster/watchdog.h"

namespace faibench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr int go = -1, nothing_to_do = 0;  // rank 0's word after the preparation; anything above: leave with this exit code
constexpr int exit_code_stuck = 4;

CoordinatorSettings settings_of(const RunOptions& options) {
  return {.seed = options.seed.value_or(1), .budget_seconds = budget_of(options), .call_limit_seconds = options.call_limit_seconds,
          .memory_limit_bytes = options.memory_limit_bytes, .gang_limit_seconds = options.gang_limit_seconds, .gate_only = options.gate_only, .fail_fast = options.fail_fast};
}

// Rank 0's side of a run, from the plan to the closing words.
class FirstRank {
 public:
  FirstRank(const RunOptions& options, MpiSession& session) : options_(options), session_(session), progress_(make_progress(stderr, options.quiet, options.color)) {}

  // `go`, or that there is nothing to do. Throws Error.
  int prepare_run(const std::vector<std::string>& descriptions) {
    ready_ = prepare(options_, read_places(descriptions));
    if (ready_.options.list_cases || ready_.options.dry_run) {
      ready_.options.list_cases ? print_cases(ready_) : print_plan(ready_);
      std::fflush(stdout);
      return nothing_to_do;
    }
    if (!ready_.layout.hint.empty()) progress_->notice(ready_.layout.hint);
    for (const std::string& line : ready_.audit.notices) progress_->notice(line);
    const auto already = static_cast<std::int64_t>(ready_.plan.items.size() - ready_.to_judge.size());
    for (const auto& [item, why] : ready_.given_up) {
      const Record record = lost_record(item, ready_.options.seed.value_or(1), "rank", why);
      ready_.ledger->append(record);
      progress_->notice(item.label() + " is given up: " + why);
    }
    make_stamp_folder();
    coordinator_ = std::make_unique<Coordinator>(settings_of(ready_.options), ready_.to_judge, already, ready_.layout, *ready_.ledger, *progress_, now);
    return go;
  }
  Coordinator* coordinator() { return coordinator_.get(); }
  // Where all ranks leave their stamps; other hosts may not have it.
  std::string stamps() const { return std::filesystem::absolute(stamp_folder(ready_.ledger->run_file())).string(); }

  // After the loop: the last fold, the summary, the exit code. Throws what stopped the run.
  int close(double started) {
    progress_->close();
    std::optional<Error> error = coordinator_->error();
    try {
      ready_.ledger->fold();
    } catch (const Error& folding) {
      if (!error) error = folding;
    }
    std::error_code ignored;
    std::filesystem::remove_all(stamps(), ignored);  // of a run that came to its end: nobody is left to look for
    const RunSummary summary = summarize(now() - started);
    if (coordinator_->signal() != 0) {
      fmt::print(stderr, "faibench: stopped by {}: {} of {} judged; go on with --resume {}\n", coordinator_->stopped_by(), coordinator_->judged(), coordinator_->total(), summary.file);
      std::fflush(stderr);
    }
    if (error) throw Error(*error);
    if (options_.on_finished) {
      options_.on_finished(summary);
    } else {
      print_summary(summary);
    }
    return summary.exit_code;
  }

 private:
  // A folder of an earlier run that broke is in the way; one that cannot be made is done without.
  void make_stamp_folder() const {
    std::error_code ignored;
    std::filesystem::remove_all(stamps(), ignored);
    std::filesystem::create_directories(stamps(), ignored);
  }

  RunSummary summarize(double seconds) const {
    RunSummary summary;
    summary.file = ready_.ledger->run_file().string();
    summary.records = ready_.ledger->records();
    summary.asked = static_cast<std::int64_t>(ready_.plan.items.size() + ready_.plan.not_run.size());
    summary.already_judged = static_cast<std::int64_t>(ready_.plan.items.size() - ready_.to_judge.size());
    summary.not_run = ready_.plan.not_run;
    for (const std::string& label : coordinator_->unfinished()) summary.not_run.push_back(label + ": the run was stopped by " + coordinator_->stopped_by());
    summary.without_implementation = ready_.plan.without_implementation;
    summary.wall_seconds = seconds;
    summary.ranks = session_.size();
    summary.nodes = static_cast<int>(ready_.layout.nodes.size());
    summary.stopped_by = coordinator_->stopped_by();
    summary.exit_code = exit_code(summary);
    return summary;
  }

  // Of what this run was asked for: a resumed file may hold other verdicts too.
  int exit_code(const RunSummary& summary) const {
    if (const int signal = coordinator_->signal(); signal != 0) return exit_code_of_signal(signal);
    std::set<std::string> asked;
    for (const PlanItem& item : ready_.plan.items) asked.insert(item.key);
    std::size_t passed = 0;
    for (const Record& record : summary.records) {
      if (record.verdict == Verdict::passed && asked.contains(record.key)) ++passed;
    }
    return summary.not_run.empty() && passed == asked.size() ? 0 : 1;
  }

  static void print_summary(const RunSummary& summary) {
    std::size_t passed = 0;
    for (const Record& record : summary.records) passed += record.verdict == Verdict::passed ? 1 : 0;
    fmt::print("{} of {} records passed on {} rank{} of {} node{} in {}: {}\n", passed, summary.records.size(), summary.ranks, summary.ranks == 1 ? "" : "s", summary.nodes,
               summary.nodes == 1 ? "" : "s", duration_text(summary.wall_seconds), summary.file);
    for (const std::string& line : summary.not_run) fmt::print("not run: {}\n", line);
    if (!summary.without_implementation.empty()) fmt::print("{} tasks of the catalog have no implementation in this build\n", summary.without_implementation.size());
    std::fflush(stdout);
  }

  const RunOptions& options_;
  MpiSession& session_;
  std::unique_ptr<Progress> progress_;
  Preparation ready_;
  std::unique_ptr<Coordinator> coordinator_;
};

int run_on_this_rank(const RunOptions& options, MpiSession& session) {
  const double started = now();
  const StopSignals signals;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  Watchdog watchdog(session.rank(), session.size(), host, hang_after_from_environment(), [](const std::string& line) { MpiSession::abandon(line, exit_code_stuck); });
  const std::vector<std::string> descriptions = session.gather(describe_this_rank(session.first_rank_of_host()));
  std::optional<FirstRank> first;
  std::optional<Error> error;
  int word = nothing_to_do;
  if (session.rank() == 0) {
    try {
      first.emplace(options, session);
      word = first->prepare_run(descriptions);
    } catch (const Error& e) {
      error = e;
      word = exit_code_of(e);
    }
  }
  word = session.conclude(word, error);
  if (word != go) return word;
  session.set_exit_code(3);  // of a rank that gets no further

  watchdog.publish(session.text_from_first(first ? first->stamps() : ""));
  {
    RankLoop loop(session, host, first ? first->coordinator() : nullptr, judge_processes(), watchdog);
    loop.run();
  }
  watchdog.enter("end", watchdog.deadlines().end);
  int code = 0;
  if (first) {
    try {
      code = first->close(started);
    } catch (const Error& e) {
      error = e;
      code = exit_code_of(e);
    }
  }
  return session.conclude(code, error);
}

}  // namespace

int exit_code_of(const Error& error) { return error.kind == Error::Kind::bad_input || error.kind == Error::Kind::io ? 2 : 3; }

int run_catalog(const RunOptions& options) {
  MpiSession session;
  const LaunchView launch{.world_size = session.size(), .get = [](const char* name) -> const char* { return std::getenv(name); }};
  if (const auto line = wrong_launch(launch)) {
    session.set_exit_code(2);
    if (!speaks_for_launch(launch)) return 2;
    throw Error(Error::Kind::bad_input, *line);
  }
  return run_on_this_rank(options, session);
}

}  // namespace faibench
