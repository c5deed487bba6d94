#include "judge/stream.h"

#include <cstdio>
#include <cstring>
#include <random>

#include "judge/gated_call.h"
#include "judge/processes.h"

namespace faibench {
namespace {

std::uint64_t drawn_seed() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

/// A stream's calls as judged calls: laid out between guards, timed, looked at for violations. What comes back is copied before anybody looks at it: a process may go on writing.
class JudgedCalls : public Stream::Calls {
 public:
  JudgedCalls(const Task& task, const Task& receiver_task, Candidate& sender, Candidate& receiver, Candidate& witness, const std::function<void(const std::string&)>& progress)
      : sender_site_(task), receiver_site_(receiver_task), witness_site_(receiver_task), sender_(sender), receiver_(receiver), witness_(witness), progress_(progress), chance_("stream", "witness", drawn_seed(), 0) {}

  bool send(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    if (steps_++ % 256 == 0) progress_("stream step " + std::to_string(steps_ - 1));
    if (!call(sender_site_, sender_, inputs, sent_, send_seconds, "sender")) return false;
    outputs = refs(sent_);
    return true;
  }
  bool receive(const TensorRefMap& inputs, TensorRefMap& outputs) override {
    if (!call(receiver_site_, receiver_, inputs, received_, receive_seconds, "receiver")) return false;
    if (++received_count_ <= held_most || chance_.below(witnessed_share) == 0) held_.push_back({copies(inputs), clone(received_)});
    if (static_cast<std::int64_t>(held_.size()) == held_most && !ask_witness()) return false;
    outputs = refs(received_);
    return true;
  }
  /// What is still held, at the end of a stream.
  bool ask_witness() {
    for (const std::int64_t i : chance_.permutation(static_cast<std::int64_t>(held_.size()))) {
      const auto& [inputs, outputs] = held_[static_cast<std::size_t>(i)];
      TensorMap got;
      if (!call(witness_site_, witness_, refs(inputs), got, witness_seconds_, "a second receiver")) return false;
      for (const auto& [name, tensor] : outputs)
        if (auto bad = same_bits(name, got.at(name), tensor)) {
          failure = wrong(*bad);
          return false;
        }
    }
    held_.clear();
    return true;
  }

  std::optional<Failure> failure;
  double send_seconds = 0, receive_seconds = 0;

 private:
  // A receiver's answer is a function of one call's inputs: a second one, which sees some calls only and in another order, answers alike. The first few calls are always among them.
  static constexpr std::int64_t held_most = 8;
  static constexpr std::int64_t witnessed_share = 16;
  struct Held {
    TensorMap inputs, outputs;
  };

  static GateResult same_bits(const std::string& name, const Tensor& got, const Tensor& wanted) {
    if (got.bytes() == wanted.bytes() && (got.bytes() == 0 || std::memcmp(got.data(), wanted.data(), static_cast<std::size_t>(got.bytes())) == 0)) return std::nullopt;
    return Mismatch{name, {}, "", "", 0, "a second receiver that was given some of the payloads, in another order, decodes one of them to something else: the answer depends on more than one call's inputs"};
  }
  bool call(CallSite& site, Candidate& who, const TensorRefMap& inputs, TensorMap& outputs, double& seconds, const char* role) {
    CallSite::Result result = site.call(who, inputs);
    if (result.failure) failure = result.failure;
    else if (result.rejected) failure = Failure{Verdict::wrong, "rejected", "rejected with " + result.rejected->code + " (" + result.rejected->message + ")", ""};
    if (failure) {
      failure->detail = std::string(role) + ": " + failure->detail;
      return false;
    }
    seconds += result.seconds;
    outputs = copies(result.outputs);
    return true;
  }

  CallSite sender_site_, receiver_site_, witness_site_;
  Candidate &sender_, &receiver_, &witness_;
  const std::function<void(const std::string&)>& progress_;
  Random chance_;
  TensorMap sent_, received_;
  std::vector<Held> held_;
  double witness_seconds_ = 0;
  std::int64_t steps_ = 0, received_count_ = 0;
};

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
  const std::vector<int> cpus = job.cpus.empty() ? allowed_cpus() : job.cpus;
  Candidate receiver(worker, job.task, std::string(receiver_prefix) + job.variant, cpus, limits), witness(worker, job.task, std::string(receiver_prefix) + job.variant, cpus, limits);
  for (Candidate* one : {&receiver, &witness})
    if (auto failure = one->load()) return fail(*failure);
  JudgedCalls calls(task, receiver_task, sender, receiver, witness, progress);
  const std::uint64_t seed = drawn_seed();  // only now: nothing that was started knows it
  const Stream::Result result = stream.drive(job.workload, seed, calls);
  if (!calls.failure && !result.mismatch) calls.ask_witness();
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
