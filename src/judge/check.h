// Case files against variants: the calling process is the judge, the variant runs in a candidate process.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "judge/candidate.h"
#include "task/task.h"

namespace faibench {

class GpuBench;

/// A given case: inputs, and either the right outputs or the code of the rejection that must come.
struct GivenCase {
  const TensorMap& inputs;
  const TensorMap& outputs;
  std::string expect_error;
};

/// Checks many cases of one task and variant through one candidate process (a fresh one after a crash).
class CaseChecker {
 public:
  /// `variant` as in JudgeJob. Throws Error(bad_input) for a variant that does not exist or load.
  CaseChecker(const Task& task, std::string variant, double call_limit_seconds = 60);
  ~CaseChecker();
  /// Empty: the case holds. The gate compares with the case's own outputs; for property gates that need none, with the contract's property.
  std::optional<Failure> check(const GivenCase& given);

 private:
  void start();
  bool may_differ_in_length(const std::string& name, const TensorRef& got, const TensorRef& given) const;

  const Task& task_;
  std::string variant_;
  double call_limit_seconds_;
  std::unique_ptr<GpuBench> gpu_;  // of a device variant; outlives the candidate
  std::unique_ptr<Candidate> candidate_;
};

}  // namespace faibench
