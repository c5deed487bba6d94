#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "task/task.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::Scratch;
using testing_support::Surroundings;

TEST(List, shows_all_known_entries_and_what_the_catalog_counts) {
  const Outcome outcome = faibench({"list"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("51 of the 85 tasks that the catalog counts are known; implemented in this build: " + std::to_string(all_tasks().size())));
  EXPECT_THAT(outcome.out, HasSubstr("\nvtc_fair_tenant_interleave"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("coalesced_matrix_transpose +linalg +3.16 +reference baseline cpu"));
}

TEST(List, filters) {
  const Outcome outcome = faibench({"list", "--tasks", "moe_*", "--tasks", "lora_*", "--exclude", "*_pad", "--group", "training"});
  EXPECT_THAT(outcome.out, HasSubstr("moe_routing_map_fuse"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("moe_routing_map_pad")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("lora_adapter_apply")));
  EXPECT_THAT(outcome.out, HasSubstr("1 shown. 51 of the 85"));
}

TEST(List, json_holds_the_same) {
  const json list = json::parse(faibench({"list", "--json"}).out);
  EXPECT_EQ(list["format"], "faibench-list/1");
  EXPECT_EQ(list["task_count"], 85);
  EXPECT_EQ(list["known"], 51);
  EXPECT_EQ(list["implemented"], all_tasks().size());
  EXPECT_EQ(list["by_bench"]["kfc"], 55);
  ASSERT_EQ(list["tasks"].size(), 51u);
  int implemented = 0;
  for (const json& task : list["tasks"]) {
    implemented += task["implemented"].get<bool>();
    EXPECT_EQ(task["implemented"].get<bool>(), !task["variants"].empty()) << task["task"];
    EXPECT_EQ(task["ref_speedup"].is_null(), task["reward_class"] == "implementation") << task["task"];
  }
  EXPECT_EQ(implemented, static_cast<int>(all_tasks().size()));
}

TEST(List, tells_variants_for_gpus_apart_and_whether_this_build_has_them) {
  const Scratch scratch;
  const Surroundings libraries{{"FAIBENCH_DEVICE_LIBRARIES=" + scratch.path().string()}, ""};
  const std::vector<std::string> words = {"list", "--tasks", "coalesced_matrix_transpose"};
  const std::vector<std::string> as_json = {"list", "--tasks", "coalesced_matrix_transpose", "--json"};
  EXPECT_THAT(faibench(words, libraries).out, HasSubstr("reference baseline cpu | GPU: cuda_baseline cuda"));
  EXPECT_THAT(faibench(words, libraries).out, HasSubstr("GPU: this build has no CUDA kernels, and cannot emulate them"));
  EXPECT_EQ(json::parse(faibench(as_json, libraries).out)["cuda_kernels"], false);
  scratch.write("libfaibench_cuda.so", "");
  scratch.write("libfaibench_emulated.so", "");
  EXPECT_THAT(faibench(words, libraries).out, HasSubstr("GPU: this build has CUDA kernels, and can emulate them"));
  const json list = json::parse(faibench(as_json, libraries).out);
  EXPECT_EQ(list["cuda_kernels"], true);
  EXPECT_EQ(list["emulated_kernels"], true);
  EXPECT_EQ(list["tasks"][0]["device_variants"], json({"cuda_baseline", "cuda"}));
}

TEST(List, takes_another_catalog) {
  const Scratch scratch;
  const std::string path = scratch.write("c.json", R"({"schema": "fai_bench_task_catalog_v2", "task_count": 3, "future": [1], "tasks": [
    {"bench": "kfc", "task_dir": "x", "infra_name": "one_of_mine", "reward_class": "performance", "ref_speedup": 2, "unknown": {}}]})");
  const Outcome outcome = faibench({"list", "--catalog", path});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("one_of_mine"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of the 3 tasks"));
}

TEST(List, a_damaged_catalog_is_one_line_with_file_line_and_field) {
  const Scratch scratch;
  const std::string path = scratch.write("c.json", "{\"schema\": \"fai_bench_task_catalog_v2\",\n\"task_count\": -3}");
  const Outcome outcome = faibench({"list", "--catalog", path});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "faibench: " + path + ": line 2: task_count: must be an integer from 0 to 1000000, not -3\n");
}

TEST(List, a_catalog_that_cannot_be_read_is_one_line) {
  const Scratch scratch;
  for (const std::string& path : {scratch.file("missing.json"), scratch.path().string(), scratch.write("empty.json", "")}) {
    const Outcome outcome = faibench({"list", "--catalog", path});
    EXPECT_EQ(outcome.code, 2) << path;
    EXPECT_TRUE(is_one_complaint(outcome.err));
    EXPECT_THAT(outcome.err, HasSubstr(path));
  }
}

TEST(List, an_unknown_name_is_an_error_with_the_nearest) {
  EXPECT_THAT(faibench({"list", "--tasks", "loar_adapter_apply"}).err, HasSubstr("did you mean lora_adapter_apply?"));
  EXPECT_THAT(faibench({"list", "--group", "lineal"}).err, HasSubstr("did you mean linalg?"));
  EXPECT_EQ(faibench({"list", "--exclude", "nothing_like_it"}).code, 2);
}

}  // namespace
}  // namespace faibench
