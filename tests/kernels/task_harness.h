// Runs a variant of a task in this process over the task's own cases, random cases and case files.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "task/task.h"
#include "tensor/case_file.h"

namespace faibench::testing_support {

/// One gate call of `variant`: right outputs or the right rejection, outputs untouched when rejected, inputs never changed.
inline void check_inputs(const Task& task, const Variant& variant, const TensorMap& inputs) {
  const TensorRefMap input_refs = refs(inputs);
  const TensorMap before = clone(inputs);
  const Rejected wanted = task.contract.validate(input_refs);
  Dims dims;
  TensorMap outputs;
  if (!task.contract.check_general(input_refs, dims)) outputs = allocate_outputs(task.contract, input_refs);
  for (auto& [name, tensor] : outputs)
    if (!input_refs.find(name)) std::memset(tensor.data(), 0xCB, static_cast<std::size_t>(tensor.bytes()));
  const TensorMap poisoned = clone(outputs);
  TensorRefMap output_refs = refs(outputs);
  const Rejected got = call_kernel(task.contract, variant.kernel, input_refs, output_refs);
  for (const auto& [name, tensor] : before) {
    if (tensor.bytes() > 0) { EXPECT_EQ(std::memcmp(tensor.data(), inputs.at(name).data(), static_cast<std::size_t>(tensor.bytes())), 0) << "input " << name << " changed"; }
  }
  if (wanted) {
    ASSERT_TRUE(got.has_value()) << "not rejected; wanted " << wanted->code << ": " << wanted->message;
    EXPECT_EQ(got->code, wanted->code) << got->message;
    EXPECT_FALSE(got->message.empty());
    for (const auto& [name, tensor] : poisoned) {
      if (tensor.bytes() > 0) { EXPECT_EQ(std::memcmp(tensor.data(), outputs.at(name).data(), static_cast<std::size_t>(tensor.bytes())), 0) << "output " << name << " written although rejected"; }
    }
    return;
  }
  ASSERT_FALSE(got.has_value()) << "rejected: " << got->code << ": " << got->message;
  std::vector<TensorMap> probe_outputs;
  if (task.gate.probes)
    for (const Probe& probe : task.gate.probes(input_refs)) probe_outputs.push_back(run_kernel(task.contract, variant.kernel, refs(probe.inputs)));
  const TensorMap expected = task.gate.needs_expected ? expected_outputs(task, input_refs) : TensorMap();
  const GateResult bad = task.gate.check({input_refs, output_refs, refs(expected), probe_outputs, variant.name == "baseline"});
  EXPECT_FALSE(bad.has_value()) << to_string(*bad);
}

inline const Variant& variant_of(const Task& task, std::string_view name) {
  const Variant* variant = task.find_variant(name);
  if (!variant) throw Error(Error::Kind::internal, task.name + " has no variant " + std::string(name));
  return *variant;
}

inline TensorMap case_inputs(const Task& task, std::string_view name) {
  for (const Case& c : task.cases)
    if (c.name == name) {
      Random random(task.name, c.name, 1, 0);
      return c.inputs(random);
    }
  throw Error(Error::Kind::internal, task.name + " has no case " + std::string(name));
}

/// What one call comes to where its outputs are of no interest.
inline Rejected rejection_by(const Task& task, std::string_view variant, const TensorMap& inputs) {
  TensorMap outputs = allocate_outputs(task.contract, refs(inputs));
  TensorRefMap output_refs = refs(outputs);
  return call_kernel(task.contract, variant_of(task, variant).kernel, refs(inputs), output_refs);
}

inline void check_all_cases(const Task& task, std::string_view variant) {
  for (const Case& c : task.cases) {
    SCOPED_TRACE(task.name + " " + std::string(variant) + " case " + c.name);
    Random random(task.name, c.name, 1, 0);
    check_inputs(task, variant_of(task, variant), c.inputs(random));
  }
}

inline void check_random_cases(const Task& task, std::string_view variant, int count) {
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(task.name + " " + std::string(variant) + " random case " + std::to_string(i));
    Random random(task.name, "random", 1, static_cast<std::uint64_t>(i));
    check_inputs(task, variant_of(task, variant), task.random_case(random));
  }
}

/// Calls look(file) for every case file under tests/cases/<task>/ ; fails if there is none.
template <class Look>
void for_each_case_file(const Task& task, Look look) {
  const char* root = std::getenv("FAIBENCH_CASES");
  ASSERT_NE(root, nullptr) << "set FAIBENCH_CASES to tests/cases";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(root) / task.name)) {
    SCOPED_TRACE(entry.path().string());
    look(read_case_file(entry.path()));
    ++files;
  }
  EXPECT_GT(files, 0);
}

/// The same for those that hold an answer and not a rejection.
template <class Look>
void for_each_answer(const Task& task, Look look) {
  int answers = 0;
  for_each_case_file(task, [&](const CaseFile& file) {
    if (!file.expect_error.empty()) return;
    look(file);
    ++answers;
  });
  EXPECT_GT(answers, 0);
}

/// The gate of a task that judges outputs by its inputs alone takes the answers of the case files.
inline void check_gate_on_answers(const Task& task) {
  for_each_answer(task, [&](const CaseFile& file) {
    const GateResult bad = task.gate.check({refs(file.inputs), refs(file.outputs), {}, {}, false});
    EXPECT_FALSE(bad.has_value()) << to_string(*bad);
  });
}

inline void check_case_files(const Task& task, std::string_view variant) {
  for_each_case_file(task, [&](const CaseFile& file) {
    SCOPED_TRACE(std::string(variant));
    const Rejected wanted = task.contract.validate(refs(file.inputs));
    EXPECT_EQ(wanted ? wanted->code : "", file.expect_error);
    check_inputs(task, variant_of(task, variant), file.inputs);
    if (file.expect_error.empty() && task.gate.needs_expected) {  // and the file's own answer is right by the gate
      TensorMap outputs = run_kernel(task.contract, variant_of(task, variant).kernel, refs(file.inputs));
      std::vector<TensorMap> probe_outputs;
      if (task.gate.probes)
        for (const Probe& probe : task.gate.probes(refs(file.inputs))) probe_outputs.push_back(run_kernel(task.contract, variant_of(task, variant).kernel, refs(probe.inputs)));
      const GateResult bad = task.gate.check({refs(file.inputs), refs(outputs), refs(file.outputs), probe_outputs, variant == "baseline"});
      EXPECT_FALSE(bad.has_value()) << "against the file's answer: " << to_string(*bad);
    }
  });
}

}  // namespace faibench::testing_support
