// Does what tests a CUDA variant of a task find the bugs that are easily made in one? A product of its own with one bug at a time goes through the cases and the gate of
// fp16_tensorcore_mma_gemm, emulated: each must fail, with the bug that it has, and the same kernel without a bug must pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>

#include "emulator/emulated_call.h"
#include "emulator/planted_gemm.h"
#include "task/device_library.h"
#include "task/task.h"

namespace faibench {
namespace tasks { const Task& fp16_tensorcore_mma_gemm(); }
namespace {

using planted::GemmBug;

struct Finding {
  std::string case_name;
  std::string fault;  ///< what the emulator found; empty: a wrong product
  std::string message;
};

template <GemmBug bug>
void multiply(View<const f16, 2> A, View<const f16, 2> B, View<f16, 2> C) { planted::multiply_f16(A, B, C, bug); }

/// The first case that the kernel fails.
std::optional<Finding> first_failure(Kernel::Overload product) {
  const Task& task = tasks::fp16_tensorcore_mma_gemm();
  const Kernel kernel = emulator::emulated_call(Kernel({std::move(product)}), {});
  for (const Case& c : task.cases) {
    Random random(task.name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    if (task.contract.validate(refs(inputs))) continue;
    TensorMap outputs = allocate_outputs(task.contract, refs(inputs));
    TensorRefMap output_refs = refs(outputs);
    try {
      call_kernel(task.contract, kernel, refs(inputs), output_refs);
    } catch (const KernelFault& fault) {
      return Finding{c.name, fault.fault, fault.what()};
    }
    if (const GateResult bad = task.gate.check({refs(inputs), output_refs, {}, {}, false})) return Finding{c.name, "", to_string(*bad)};
  }
  return std::nullopt;
}

struct Planted {
  const char* name;
  Kernel::Overload (*product)();
  const char* fault;  ///< a part of what the emulator must find; empty: the product must be wrong
};
void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

template <GemmBug bug>
Kernel::Overload product() { return bind(multiply<bug>, {"A", "B", "C"}); }

class PlantedGemm : public testing::TestWithParam<Planted> {};

TEST_P(PlantedGemm, is_caught) {
  const auto finding = first_failure(GetParam().product());
  ASSERT_TRUE(finding.has_value()) << "passes every case";
  const std::string wanted = GetParam().fault;
  if (wanted.empty()) EXPECT_EQ(finding->fault, "") << finding->case_name << ": " << finding->message;
  else EXPECT_THAT(finding->fault, testing::HasSubstr(wanted)) << finding->case_name << ": " << finding->message;
}

const Planted bugs[] = {
    {"last_step_lost", product<GemmBug::last_step_lost>, ""},
    {"row_past_the_end", product<GemmBug::row_past_the_end>, "out of bounds"},
    {"column_past_the_end", product<GemmBug::column_past_the_end>, "out of bounds"},
    {"tail_not_cleared", product<GemmBug::tail_not_cleared>, "shared memory"},
    {"chunk_past_the_row", product<GemmBug::chunk_past_the_row>, "out of bounds"},
    {"no_barrier_after_copies", product<GemmBug::no_barrier_after_copies>, "shared memory"},
    {"no_barrier_before_next_copies", product<GemmBug::no_barrier_before_next_copies>, "race"},
    {"waits_for_the_wrong_copies", product<GemmBug::waits_for_the_wrong_copies>, "shared memory"},
    {"registers_of_a_swapped", product<GemmBug::registers_of_a_swapped>, ""},
    {"rows_of_a_from_the_other_warp", product<GemmBug::rows_of_a_from_the_other_warp>, ""},
    {"b_not_transposed", product<GemmBug::b_not_transposed>, ""},
    {"columns_of_b_swapped", product<GemmBug::columns_of_b_swapped>, ""},
    {"rows_of_sums_mixed", product<GemmBug::rows_of_sums_mixed>, ""},
    {"multiple_of_4_for_8", product<GemmBug::multiple_of_4_for_8>, "misaligned"},
    {"pairs_in_odd_rows", product<GemmBug::pairs_in_odd_rows>, "misaligned"},
    {"sums_in_f16", product<GemmBug::sums_in_f16>, ""},
    {"truncates", product<GemmBug::truncates>, ""},
};
INSTANTIATE_TEST_SUITE_P(Bugs, PlantedGemm, testing::ValuesIn(bugs), [](const auto& info) { return std::string(info.param.name); });

TEST(GemmWithoutPlantedBug, passes_every_case) {
  const auto finding = first_failure(product<GemmBug::none>());
  EXPECT_FALSE(finding.has_value()) << finding->case_name << ": " << finding->message;
}

}  // namespace
}  // namespace faibench
