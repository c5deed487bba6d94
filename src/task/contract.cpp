#include "task/contract.h"

#include <algorithm>

namespace faibench {
namespace {

std::vector<Extent> parse(const std::vector<std::string>& texts) {
  std::vector<Extent> extents;
  for (const std::string& text : texts) extents.emplace_back(text);
  return extents;
}

std::string joined(const std::vector<Dtype>& dtypes) {
  std::string text;
  for (std::size_t i = 0; i < dtypes.size(); ++i) text += (i ? " or " : "") + std::string(name_of(dtypes[i]));
  return text;
}

std::string text_of(const std::vector<Extent>& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i ? ", " : "") + extents[i].text();
  return text + "]";
}

Rejected check_dtype(const TensorSpec& spec, const TensorRef& tensor, const TensorRefMap& inputs) {
  if (spec.dtype_of.empty()) {
    if (std::find(spec.dtypes.begin(), spec.dtypes.end(), tensor.dtype) != spec.dtypes.end()) return std::nullopt;
    return reject("wrong_dtype", spec.name, -1, std::string(name_of(tensor.dtype)), "it must be " + joined(spec.dtypes));
  }
  const TensorRef* model = inputs.find(spec.dtype_of);
  if (!model || model->dtype == tensor.dtype) return std::nullopt;
  return reject("wrong_dtype", spec.name, -1, std::string(name_of(tensor.dtype)), "it must be " + std::string(name_of(model->dtype)) + " like " + spec.dtype_of);
}

Rejected wrong_size(const TensorSpec& spec, const TensorRef& tensor, std::size_t d, std::int64_t wanted, const std::string& why) {
  const std::string& text = spec.extents[d].text();
  const std::string number = std::to_string(wanted);
  return reject("dim_mismatch", spec.name, -1, to_string(tensor.shape), "dimension " + std::to_string(d) + (text == number ? "" : " (" + text + ")") + " must be " + number + why);
}

// The tensor that gave a letter a value below 0, "n+1" where it has no row, is the one to mend: `extent`, of `size` in `other`, says how long it must be.
Rejected too_short(const std::vector<TensorSpec>& specs, const TensorRefMap& inputs, const Extent& extent, std::int64_t size, const std::string& other) {
  Dims meant;
  if (!extent.bind(meant, size)) return std::nullopt;
  for (const TensorSpec& spec : specs) {
    const TensorRef* tensor = inputs.find(spec.name);
    for (std::size_t d = 0; tensor && d < spec.extents.size(); ++d) {
      Dims given;
      if (!spec.extents[d].bind(given, tensor->shape[d]) || given.begin()->first != meant.begin()->first || given.begin()->second >= 0) continue;
      return wrong_size(spec, *tensor, d, *spec.extents[d].value(meant), " as " + other + " is " + to_string(inputs.at(other).shape));
    }
  }
  return std::nullopt;
}

Rejected check_dims(const std::vector<TensorSpec>& specs, const TensorSpec& spec, const TensorRefMap& inputs, Dims& dims) {
  const TensorRef& tensor = inputs.at(spec.name);
  for (std::size_t d = 0; d < spec.extents.size(); ++d) {
    const Extent& extent = spec.extents[d];
    const std::int64_t size = tensor.shape[d];
    if (extent.bind(dims, size)) continue;
    const auto wanted = extent.value(dims);
    if (!wanted || *wanted == size) continue;
    if (*wanted < 0)
      if (Rejected rejected = too_short(specs, inputs, extent, size, spec.name)) return rejected;
    return wrong_size(spec, tensor, d, *wanted, extent.value({}) ? "" : " as in the tensors before it");
  }
  return std::nullopt;
}

Rejected check_offsets(const TensorSpec& spec, const TensorRef& tensor, const Dims& dims) {
  const auto offsets = tensor.flat<const std::int64_t>();
  const std::size_t n = offsets.size();
  if (n == 0) return reject("bad_offsets", spec.name, -1, "empty", "offsets have one element more than the list");
  if (offsets[0] != 0) return reject("bad_offsets", spec.name, 0, std::to_string(offsets[0]), "the first offset is 0");
  bool falls = false;  // whole pass without an exit, so that it runs at vector speed: it lies in the timed window
  for (std::size_t i = 1; i < n; ++i) falls |= offsets[i] < offsets[i - 1];
  if (falls) {
    std::size_t i = 1;
    while (offsets[i] >= offsets[i - 1]) ++i;
    return reject("bad_offsets", spec.name, static_cast<std::int64_t>(i), std::to_string(offsets[i]), "below the offset before it, " + std::to_string(offsets[i - 1]));
  }
  const auto last = spec.last_offset->value(dims);
  if (last && offsets[n - 1] != *last)
    return reject("bad_offsets", spec.name, static_cast<std::int64_t>(n - 1), std::to_string(offsets[n - 1]), "the last offset is " + spec.last_offset->text() + " = " + std::to_string(*last));
  return std::nullopt;
}

// Letters that are integer scalars of the input: "K" in an output's shape may be the scalar input K.
Dims with_scalars(const TensorRefMap& inputs, Dims dims) {
  for (const auto& [name, tensor] : inputs) {
    if (tensor.rank() != 0 || dims.find(name)) continue;
    if (tensor.dtype == Dtype::i32) dims.set(name, tensor.scalar<std::int32_t>());
    if (tensor.dtype == Dtype::u32) dims.set(name, tensor.scalar<std::uint32_t>());
    if (tensor.dtype == Dtype::i64) dims.set(name, tensor.scalar<std::int64_t>());
  }
  return dims;
}

}  // namespace

Rejection reject(std::string code, std::string tensor, std::int64_t index, const std::string& value, const std::string& why) {
  std::string message = tensor + (index >= 0 ? "[" + std::to_string(index) + "]" : "") + " is " + value + ": " + why;
  return {std::move(code), std::move(tensor), index, std::move(message)};
}

TensorSpec& Contract::input(std::string name, std::vector<Dtype> dtypes, std::vector<std::string> extents, std::string meaning, std::string valid_range) {
  TensorSpec& spec = inputs_.emplace_back();
  spec.name = std::move(name);
  spec.dtypes = std::move(dtypes);
  spec.extents = parse(extents);
  spec.meaning = std::move(meaning);
  spec.valid_range = std::move(valid_range);
  return spec;
}

TensorSpec& Contract::input_like(std::string name, std::string dtype_of, std::vector<std::string> extents, std::string meaning, std::string valid_range) {
  TensorSpec& spec = input(std::move(name), {}, std::move(extents), std::move(meaning), std::move(valid_range));
  spec.dtype_of = std::move(dtype_of);
  return spec;
}

TensorSpec& Contract::output(std::string name, std::vector<Dtype> dtypes, std::vector<std::string> extents, std::string meaning) {
  TensorSpec& spec = outputs_.emplace_back();
  spec.name = std::move(name);
  spec.dtypes = std::move(dtypes);
  spec.extents = parse(extents);
  spec.meaning = std::move(meaning);
  return spec;
}

TensorSpec& Contract::output_like(std::string name, std::string dtype_of, std::vector<std::string> extents, std::string meaning) {
  TensorSpec& spec = output(std::move(name), {}, std::move(extents), std::move(meaning));
  spec.dtype_of = std::move(dtype_of);
  return spec;
}

void Contract::rule(std::string code, std::string condition, CheckedBy checked_by, std::function<Rejected(const TensorRefMap&)> check) {
  rules_.push_back({std::move(code), std::move(condition), checked_by, std::move(check)});
}

Rejected Contract::check_general(const TensorRefMap& inputs, Dims& dims) const {
  for (const TensorSpec& spec : inputs_)
    if (!spec.optional && !inputs.find(spec.name)) return Rejection{"missing_tensor", spec.name, -1, "input '" + spec.name + "' is missing"};
  for (const auto& [name, tensor] : inputs)
    if (std::none_of(inputs_.begin(), inputs_.end(), [&](const TensorSpec& spec) { return spec.name == name; }))
      return Rejection{"unknown_tensor", name, -1, "the contract has no input '" + name + "'"};
  const auto for_present = [&](auto&& check) -> Rejected {
    for (const TensorSpec& spec : inputs_)
      if (const TensorRef* tensor = inputs.find(spec.name))
        if (Rejected rejected = check(spec, *tensor)) return rejected;
    return std::nullopt;
  };
  if (Rejected r = for_present([&](const TensorSpec& spec, const TensorRef& tensor) { return check_dtype(spec, tensor, inputs); })) return r;
  if (Rejected r = for_present([&](const TensorSpec& spec, const TensorRef& tensor) -> Rejected {
        if (tensor.shape.size() == spec.extents.size()) return std::nullopt;
        return reject("wrong_rank", spec.name, -1, to_string(tensor.shape), "it must be " + text_of(spec.extents));
      }))
    return r;
  if (Rejected r = for_present([&](const TensorSpec& spec, const TensorRef&) { return check_dims(inputs_, spec, inputs, dims); })) return r;
  return for_present([&](const TensorSpec& spec, const TensorRef& tensor) -> Rejected {
    return spec.last_offset ? check_offsets(spec, tensor, dims) : std::nullopt;
  });
}

Rejected Contract::check_rules(const TensorRefMap& inputs, CheckedBy by) const {
  for (const Rule& rule : rules_)
    if (rule.checked_by == by)
      if (Rejected rejected = rule.check(inputs)) return rejected;
  return std::nullopt;
}

Rejected Contract::validate(const TensorRefMap& inputs) const {
  Dims dims;
  if (Rejected rejected = check_general(inputs, dims)) return rejected;
  for (const Rule& rule : rules_)
    if (Rejected rejected = rule.check(inputs)) return rejected;
  return std::nullopt;
}

std::vector<Contract::OutputShape> Contract::output_shapes(const TensorRefMap& inputs, const Dims& dims) const {
  const Dims known = with_scalars(inputs, dims);
  std::vector<OutputShape> shapes;
  for (const TensorSpec& spec : outputs_) {
    if (spec.exists && !spec.exists(inputs)) continue;
    OutputShape output{spec.name, spec.dtype_of.empty() ? spec.dtypes.at(0) : inputs.at(spec.dtype_of).dtype, {}, spec.length};
    for (const Extent& extent : spec.extents) {
      const auto value = extent.value(known);
      output.shape.push_back(value ? std::max<std::int64_t>(*value, 0) : 0);
    }
    if (spec.rows) output.shape.at(0) = spec.rows(inputs);
    shapes.push_back(std::move(output));
  }
  return shapes;
}

}  // namespace faibench
