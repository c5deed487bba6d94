// The correctness gate: is this output right? Standard gates, and the form of a task's own.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "task/contract.h"
#include "tensor/tensor.h"

namespace faibench {

/// The first wrong element, or what else is wrong.
struct Mismatch {
  std::string tensor;
  Shape index;                       ///< of the element; empty: the tensor as a whole
  std::string got, wanted;           ///< empty where a property and not a value is broken
  double error_over_tolerance = 0;   ///< 0: not a matter of tolerance
  std::string what;                  ///< one line in words, e.g. "digests of documents 3 and 7 are equal, the documents are not"
};
/// Empty: the output is right.
using GateResult = std::optional<Mismatch>;

/// "out[2, 5]: got 1.5, wanted 1.25 (error 8.1 x tolerance)".
std::string to_string(const Mismatch& mismatch);

/// One judged call. `expected` holds the right outputs (from Task::expected, in a wider dtype where rounding matters, or the baseline's in timed blocks).
/// `probes` holds the outputs of the calls that Gate::probes asked for, in that order.
struct GateCall {
  const TensorRefMap& inputs;
  const TensorRefMap& outputs;
  const TensorRefMap& expected;
  const std::vector<TensorMap>& probes;
  bool candidate_is_baseline = false;  ///< where a baseline is worse by design, a gate may ask less of it
};

/// A second call that a gate needs to see, on inputs derived from the first; untimed.
struct Probe {
  TensorMap inputs;
  int threads = 0;  ///< 0: as many as the call itself
};

/// Calls whose time the gate bounds: each on an input set of the workload.
struct TimeLimit {
  std::string workload;
  double seconds = 0;
  int threads = 1;
};

struct Gate {
  std::string text;                                                        ///< as the contract words it
  std::function<GateResult(const GateCall&)> check;
  /// In timed blocks the baseline's output stands for the expected one (saves running the reference on every fresh input).
  bool baseline_is_expected = true;
  /// False for a property gate that reads no expected output: the runner then computes none.
  bool needs_expected = true;
  std::function<std::vector<Probe>(const TensorRefMap& inputs)> probes = {};
  std::vector<TimeLimit> time_limits = {};  ///< each tried before the timed blocks; a candidate that is slower fails
};

/// Every element of every expected output equal, bit for bit (floats too).
GateResult exact_outputs(const GateCall& call);
Gate exact_gate();

/// |out - ref| <= atol + rtol*|ref| for every element, NaN where and only where ref is NaN, the same infinity where ref is infinite.
struct Tolerance {
  std::string tensor;  ///< empty: every output not named otherwise; integers are compared exactly
  Dtype dtype;         ///< of the output
  double rtol, atol;
};
GateResult close_outputs(const GateCall& call, const std::vector<Tolerance>& tolerances);
Gate close_gate(std::vector<Tolerance> tolerances);

/// Shape and dtype of `got` as `wanted`'s (a wider float in `wanted` stands for any float).
GateResult same_form(const std::string& name, const TensorRef& got, const TensorRef& wanted);
/// Multi-index of a flat index.
Shape unflatten(const Shape& shape, std::int64_t flat);
/// The element as text ("0x7fc00001 (nan)" for floats that are not finite).
std::string element_text(const TensorRef& tensor, std::int64_t flat);

}  // namespace faibench
