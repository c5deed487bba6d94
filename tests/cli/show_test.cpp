#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "task/catalog.h"
#include "task/task.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::Scratch;
using testing_support::Surroundings;

TEST(Show, explains_a_task) {
  const Outcome outcome = faibench({"show", "coalesced_matrix_transpose"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"f32[M, N]", "missing_tensor, unknown_tensor, wrong_dtype", "\nVariants\n", "\nWorkloads\n", "8192 x 4096", "exact", "4*M*N", "3.16", "9.9856"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(Show, has_every_part_of_every_task_of_this_build) {
  for (const Task* task : all_tasks()) {
    SCOPED_TRACE(task->name);
    const Outcome outcome = faibench({"show", task->name});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json shown = json::parse(faibench({"show", task->name, "--json"}).out);
    for (const TensorSpec& spec : task->contract.inputs()) EXPECT_THAT(outcome.out, HasSubstr("\n  " + spec.name));
    EXPECT_EQ(shown["contract"]["inputs"].size(), task->contract.inputs().size());
    EXPECT_EQ(shown["contract"]["outputs"].size(), task->contract.outputs().size());
    EXPECT_EQ(shown["contract"]["rejections"].size(), 6 + task->contract.rules().size());
    EXPECT_EQ(shown["variants"].size(), task->variants.size());
    EXPECT_EQ(shown["workloads"].size(), task->workloads.size());
    EXPECT_EQ(shown["cases"].size(), task->cases.size());
    EXPECT_EQ(shown.contains("multi_rank"), task->multi_rank.has_value());
    EXPECT_FALSE(shown["gate"].get<std::string>().empty());
    EXPECT_FALSE(shown["metric"].get<std::string>().empty());
  }
}

TEST(Show, says_whether_this_build_has_variants_for_gpus) {
  const Scratch scratch;
  const Surroundings libraries{{"FAIBENCH_DEVICE_LIBRARIES=" + scratch.path().string()}, ""};
  EXPECT_THAT(faibench({"show", "coalesced_matrix_transpose"}, libraries).out, HasSubstr("(on a GPU: not in this build)"));
  scratch.write("libfaibench_emulated.so", "");
  const json shown = json::parse(faibench({"show", "coalesced_matrix_transpose", "--json"}, libraries).out);
  int on_device = 0;
  for (const json& variant : shown["variants"]) {
    if (!variant.contains("on_device")) continue;
    ++on_device;
    EXPECT_EQ(variant["in_this_build"], false);
    EXPECT_EQ(variant["emulated_in_this_build"], true);
  }
  EXPECT_EQ(on_device, 2);
}

TEST(Show, says_that_a_known_task_is_not_implemented) {
  for (const CatalogEntry& entry : embedded_catalog().entries) {
    if (find_task(entry.name)) continue;
    const Outcome outcome = faibench({"show", entry.name});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("no implementation"));
    EXPECT_EQ(json::parse(faibench({"show", entry.name, "--json"}).out)["implemented"], false);
    return;
  }
}

TEST(Show, an_unknown_task_is_an_error_with_the_nearest) {
  const Outcome outcome = faibench({"show", "coalesced_matrix_transpos"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "faibench: unknown task 'coalesced_matrix_transpos': did you mean coalesced_matrix_transpose? ('faibench list' shows all)\n");
}

}  // namespace
}  // namespace faibench
