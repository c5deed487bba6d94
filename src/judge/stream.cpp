#include "judge/stream.h"

#include <cstdio>
#include <random>

#include "judge/gated_call.h"
#include "judge/processes.h"

namespace faibench {
namespace {

/// A stream's calls as judged calls: laid out between guards, timed, looked at for violations.
class JudgedCalls : public Stream::Calls {
 public:
  JudgedCalls(const Task& task, const Task& receiver_task, Candidate& sender, Candidate& receiver, const std::function<void(const std::string&)>& progress)
      : sender_site_(task), receiver_site_(receiver_task), sender_(sender), receiver_(receiver), progress_(progress) {}

  bool send(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    if (steps_++ % 256 == 0) progress_("stream step " + std::to_string(steps_ - 1));
    return call(sender_site_, sender_, inputs, outputs, send_seconds, "sender");
  }
  bool receive(const TensorRefMap& inputs, TensorRefMap& outputs) override { return call(receiver_site_, receiver_, inputs, outputs, receive_seconds, "receiver"); }

  std::optional<Failure> failure;
  double send_seconds = 0, receive_seconds = 0;

 private:
  bool call(CallSite& site, Candidate& who, const TensorRefMap& inputs, TensorRefMap& outputs, double& seconds, const char* role) {
    CallSite::Result result = site.call(who, inputs);
    if (result.failure) failure = result.failure;
    else if (result.rejected) failure = Failure{Verdict::wrong, "rejected", "rejected with " + result.rejected->code + " (" + result.rejected->message + ")", ""};
    if (failure) {
      failure->detail = std::string(role) + ": " + failure->detail;
      return false;
    }
    seconds += result.seconds;
    outputs = std::move(result.outputs);
    return true;
  }

  CallSite sender_site_, receiver_site_;
  Candidate &sender_, &receiver_;
  const std::function<void(const std::string&)>& progress_;
  std::int64_t steps_ = 0;
};

std::uint64_t drawn_seed() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

void judge_stream(const JudgeJob& job, const Task& task, const std::string& worker, Candidate& sender, const CandidateLimits& limits, Record& record,
                  const std::function<void(const std::string&)>& progress) {
  const Stream& stream = *task.stream;
  Task receiver_task;
  receiver_task.name = task.name;
  receiver_task.contract = stream.receiver;
  const auto fail = [&](const Failure& failure) {
    record.verdict = failure.verdict;
    record.reason = failure.reason;
    record.detail = "stream of workload " + job.workload + ": " + failure.detail;
    record.stderr_tail = failure.stderr_tail;
  };
  Candidate receiver(worker, job.task, std::string(receiver_prefix) + job.variant, job.cpus.empty() ? allowed_cpus() : job.cpus, limits);
  if (auto failure = receiver.load()) return fail(*failure);
  JudgedCalls calls(task, receiver_task, sender, receiver, progress);
  const std::uint64_t seed = drawn_seed();  // only now: nothing that was started knows it
  const Stream::Result result = stream.drive(job.workload, seed, calls);
  const double steps = static_cast<double>(std::max<std::int64_t>(result.steps, 1));
  char times[120];
  std::snprintf(times, sizeof times, "send %.1f us, receive %.1f us a step", 1e6 * calls.send_seconds / steps, 1e6 * calls.receive_seconds / steps);
  record.note = "stream seed " + std::to_string(seed) + "; " + result.figures + times;
  if (calls.failure) return fail(*calls.failure);
  if (result.mismatch) return fail(wrong(*result.mismatch));
  record.verdict = Verdict::passed;
  record.speedup = record.speedup_low = record.speedup_high = result.ratio;
  record.seconds = (calls.send_seconds + calls.receive_seconds) / steps;
  record.blocks = 1;
  record.stop_reason = "stream";
}

}  // namespace faibench
