#include "judge/check.h"

#include <algorithm>

#include "judge/gated_call.h"
#include "judge/gpu_bench.h"
#include "judge/judge_process.h"
#include "judge/processes.h"

namespace faibench {

CaseChecker::CaseChecker(const Task& task, std::string variant, double call_limit_seconds) : task_(task), variant_(std::move(variant)), call_limit_seconds_(call_limit_seconds) {
  if (const Variant* variant = task_.find_variant(variant_); variant && variant->on_device) gpu_ = std::make_unique<GpuBench>("");
  adopt_orphans();
  start();
}

CaseChecker::~CaseChecker() = default;

void CaseChecker::start() {
  candidate_.reset();
  CandidateLimits limits;
  limits.call_seconds = call_limit_seconds_;
  candidate_ = std::make_unique<Candidate>(worker_path(), task_.name, variant_, allowed_cpus(), limits, gpu_.get());
  if (auto failure = candidate_->load()) throw Error(Error::Kind::bad_input, task_.name + " " + variant_ + ": " + failure->detail);
}

// Where a property decides, an output whose length depends on the data may be longer or shorter than the case's.
bool CaseChecker::may_differ_in_length(const std::string& name, const TensorRef& got, const TensorRef& given) const {
  if (task_.gate.needs_expected || got.dtype != given.dtype || got.rank() != given.rank() || got.rank() == 0) return false;
  if (!std::equal(got.shape.begin() + 1, got.shape.end(), given.shape.begin() + 1)) return false;
  return std::ranges::any_of(task_.contract.outputs(), [&](const TensorSpec& spec) { return spec.name == name && !spec.length.empty(); });
}

std::optional<Failure> CaseChecker::check(const GivenCase& given) {
  if (candidate_->pid() < 0) start();  // the last case killed it
  CallSite site(task_);
  const TensorRefMap inputs = refs(given.inputs);
  const auto failed = [](std::string reason, std::string detail) { return Failure{Verdict::wrong, std::move(reason), std::move(detail), ""}; };
  CallSite::Result result = site.call(*candidate_, inputs);
  if (result.failure) return result.failure;
  if (!given.expect_error.empty()) {
    if (!result.rejected) return failed("not rejected", "accepted, wanted " + given.expect_error);
    if (result.rejected->code != given.expect_error) return failed("wrong code", "rejected with " + result.rejected->code + " (" + result.rejected->message + "), wanted " + given.expect_error);
    return std::nullopt;
  }
  if (result.rejected) return failed("rejected", "valid input rejected with " + result.rejected->code + " (" + result.rejected->message + ")");
  const TensorMap outputs = copies(result.outputs);
  // The case's answer must itself be well-formed, or the gate would compare nothing.
  for (const auto& [name, tensor] : outputs)
    if (!given.outputs.find(name)) return failed("case", "the case has no output '" + name + "'");
  for (const auto& [name, tensor] : given.outputs) {
    const Tensor* got = outputs.find(name);
    if (!got) return failed("case", "the case has an output '" + name + "' that the contract does not give for its inputs");
    if (const GateResult bad = same_form(name, got->ref(), tensor.ref()); bad && !may_differ_in_length(name, got->ref(), tensor.ref())) return wrong(*bad);
  }
  if (auto failure = site.gate_outputs(*candidate_, inputs, refs(outputs), refs(given.outputs), variant_ == "baseline" || variant_ == "cuda_baseline")) return failure;
  // Where a property decides, the gate looked at the variant's answer alone: the case's own must have the property too.
  const TensorMap expected = task_.gate.needs_expected ? expected_outputs(task_, inputs) : TensorMap();
  if (const GateResult bad = task_.gate.check({inputs, refs(given.outputs), refs(expected), {}, false})) return failed("case", "the case's own answer is wrong: " + to_string(*bad));
  return std::nullopt;
}

}  // namespace faibench
