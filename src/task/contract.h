// What a task takes, gives and rejects, stated once as data.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "task/extent.h"
#include "tensor/tensor.h"

namespace faibench {

/// Invalid input, as a value: which code of the contract's table, and where.
struct Rejection {
  std::string code;
  std::string tensor;             ///< the tensor at fault, may be empty
  std::int64_t index = -1;        ///< flat index of the value at fault, -1: the tensor as a whole
  std::string message;            ///< one line: names tensor, index and value
};
/// Empty: the input is valid.
using Rejected = std::optional<Rejection>;

struct TensorSpec {
  std::string name;
  std::vector<Dtype> dtypes;       ///< allowed ones; empty when `dtype_of` is set
  std::string dtype_of;            ///< has the dtype of this (earlier) tensor
  std::vector<Extent> extents;     ///< scalar: none
  std::string meaning;
  std::string valid_range;
  bool optional = false;           ///< an input that may be absent
  bool in_place = false;           ///< an input that is also an output under the same name
  std::optional<Extent> last_offset;  ///< a ragged list's offsets: 0 first, not decreasing, this value last
  std::string length;              ///< an output whose first extent is an upper bound: the letter that names its true length
  std::function<std::int64_t(const TensorRefMap& inputs)> rows;  ///< an output's first extent where letters cannot give it; sees generally valid inputs, 0 for what a rule rejects
  std::string condition;           ///< a conditional output exists when `exists` says so; the same in words
  std::function<bool(const TensorRefMap& inputs)> exists;
};

/// Who runs a rule's check: the runner before each call (inside the timed window), or the variant itself, fused with its work.
enum class CheckedBy { runner, variant };

/// One row of the contract's rejection table. `check` sees inputs that passed the general codes and all earlier rules.
struct Rule {
  std::string code;
  std::string condition;
  CheckedBy checked_by = CheckedBy::runner;
  std::function<Rejected(const TensorRefMap& inputs)> check;
};

class Contract {
 public:
  /// The builders return the new spec, to be refined: `c.input("offsets", {Dtype::i64}, {"N+1"}, "...").last_offset = Extent("B");`
  /// Adding another tensor invalidates the reference.
  TensorSpec& input(std::string name, std::vector<Dtype> dtypes, std::vector<std::string> extents, std::string meaning, std::string valid_range = "");
  TensorSpec& input_like(std::string name, std::string dtype_of, std::vector<std::string> extents, std::string meaning, std::string valid_range = "");
  TensorSpec& output(std::string name, std::vector<Dtype> dtypes, std::vector<std::string> extents, std::string meaning);
  TensorSpec& output_like(std::string name, std::string dtype_of, std::vector<std::string> extents, std::string meaning);
  void rule(std::string code, std::string condition, CheckedBy checked_by, std::function<Rejected(const TensorRefMap&)> check);

  [[nodiscard]] const std::vector<TensorSpec>& inputs() const { return inputs_; }
  /// The outputs proper, without the in-place inputs.
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const { return outputs_; }
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }

  /// The general codes, in their order: missing_tensor, unknown_tensor, wrong_dtype, wrong_rank, dim_mismatch, bad_offsets.
  /// On success `dims` holds every letter that the inputs bind.
  [[nodiscard]] Rejected check_general(const TensorRefMap& inputs, Dims& dims) const;
  /// The rules checked by `by`, in order, on inputs that passed check_general.
  [[nodiscard]] Rejected check_rules(const TensorRefMap& inputs, CheckedBy by) const;
  /// Everything in the contract's order, whoever checks it: what the judge expects of a variant.
  [[nodiscard]] Rejected validate(const TensorRefMap& inputs) const;

  /// Dtype and (upper bound) shape of one output. Letters that no input dimension binds are looked up among the integer scalar inputs.
  struct OutputShape {
    std::string name;
    Dtype dtype;
    Shape shape;
    std::string length;  ///< letter of the true first extent, empty if the shape is exact
  };
  /// The outputs that exist for these (generally valid) inputs, in-place tensors not among them.
  [[nodiscard]] std::vector<OutputShape> output_shapes(const TensorRefMap& inputs, const Dims& dims) const;

 private:
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<Rule> rules_;
};

/// Builds a rejection with the common form of message: "<tensor>[<index>] is <value>: <why>". `index` -1 leaves the brackets out.
Rejection reject(std::string code, std::string tensor, std::int64_t index, const std::string& value, const std::string& why);

}  // namespace faibench
