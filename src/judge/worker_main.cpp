// faibench-worker: the processes below a rank. No MPI, no HDF5. Not meant to be started by hand.
//   faibench-worker judge      reads one job (a JSON line) from stdin, writes stages and the outcome (JSON lines) to stdout
//   faibench-worker candidate  started by a judge with the shared memory as descriptor 3
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "judge/candidate.h"
#include "judge/candidate_main.h"
#include "judge/judge.h"
#include "judge/judge_process.h"
#include "judge/peaks.h"

namespace faibench {
namespace {

void say(const nlohmann::json& line) {
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(1, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);  // the rank is gone
    at += static_cast<std::size_t>(n);
  }
}

// The judge sleeps on the core that the candidate's first thread runs on: a wake-up there costs 2 us, on an idle core 70.
void pin_to_first(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpus.front(), &mask);
  sched_setaffinity(0, sizeof mask, &mask);
}

int judge_main() {
  adopt_orphans();
  prctl(PR_SET_DUMPABLE, 0);  // its memory and descriptors are closed to other processes of the user
  std::string line;
  if (!std::getline(std::cin, line)) return 1;
  try {
    const JudgeJob job = job_from_json(line);
    pin_to_first(job.cpus);
    const std::string worker = worker_path();
    if (job.kind == JudgeJob::Kind::calibrate) say({{"peaks", nlohmann::json::parse(to_json(measure_peaks(job, worker)))}});
    else say({{"record", nlohmann::json::parse(to_json(judge_task(job, worker, [](const std::string& stage) { say({{"stage", stage}}); })))}});
    return 0;
  } catch (const std::exception& e) {
    say({{"failure", e.what()}});
    return 1;
  }
}

}  // namespace
}  // namespace faibench

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "candidate") return faibench::candidate_main();
  if (role == "judge") return faibench::judge_main();
  std::fputs("faibench-worker is started by faibench, not by hand: try `faibench run`\n", stderr);
  return 2;
}
