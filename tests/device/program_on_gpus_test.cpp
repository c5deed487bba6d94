// faibench from outside on a host with GPUs that are doubles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "fake_gpu.h"
#include "results/run_file.h"

namespace faibench::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProgramOnGpus : public testing::Test {
 protected:
  ProgramOnGpus() {
    fake.reset(2);
    fake.state().total_bytes = std::int64_t{64} << 20;
  }
  // One task, small and short, on `ranks` ranks.
  RunContents run(int ranks, const std::vector<std::string>& variables = {}) {
    const std::string file = scratch_.file("run.h5");
    const Outcome outcome = run_command({"mpirun", "--oversubscribe", "-n", std::to_string(ranks), std::getenv("FAIBENCH_BIN"), "run", "--tasks", "coalesced_matrix_transpose", "--workload", "smoke", "--budget", "0.1",
                                         "--variant", "cuda", "--variant", "cuda_baseline", "--no-color", "--force", "--out", file},
                                        {variables, {}});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    return read_run(file);
  }
  static inline FakeGpus fake{2};
  Scratch scratch_;
};

TEST_F(ProgramOnGpus, runs_cuda_variants_on_the_gpu_of_each_rank) {
  const RunContents file = run(2);
  ASSERT_EQ(file.records.size(), 2u);
  for (const Record& record : file.records) {
    EXPECT_EQ(record.verdict, Verdict::passed) << record.detail;
    EXPECT_THAT(record.variant, testing::StartsWith("cuda"));
    EXPECT_EQ(record.gpu, fake_uuid(record.rank));
    EXPECT_GT(record.blocks, 0);
    EXPECT_THAT(record.flags, Not(testing::Contains(HasSubstr("gpu_shared"))));
  }
  ASSERT_EQ(file.provenance.ranks.size(), 2u);
  EXPECT_EQ(file.provenance.ranks[1].gpu, fake_uuid(1));
  EXPECT_THAT(file.provenance.ranks[1].gpu_facts, HasSubstr("Fake GPU, sm_90"));
  EXPECT_THAT(file.provenance.ranks[1].gpu_facts, HasSubstr("driver 580.65.06"));
}

TEST_F(ProgramOnGpus, says_in_the_records_that_ranks_share_a_gpu) {
  const RunContents file = run(2, {"CUDA_VISIBLE_DEVICES=1"});
  ASSERT_EQ(file.records.size(), 2u);
  for (const Record& record : file.records) {
    EXPECT_EQ(record.verdict, Verdict::passed) << record.detail;
    EXPECT_EQ(record.gpu, fake_uuid(1));
    EXPECT_THAT(record.flags, testing::Contains("gpu_shared_by_ranks:2"));
  }
  EXPECT_THAT(file.provenance.audit, testing::Contains(HasSubstr("share one GPU, " + fake_uuid(1))));
}

TEST_F(ProgramOnGpus, takes_the_cpu_where_no_gpu_is_visible) {
  const RunContents file = run(1, {"CUDA_VISIBLE_DEVICES="});
  ASSERT_EQ(file.records.size(), 2u);
  for (const Record& record : file.records) {
    EXPECT_EQ(record.gpu, "");
    EXPECT_THAT(record.variant, Not(testing::StartsWith("cuda")));
  }
}

TEST_F(ProgramOnGpus, plans_the_gpu_workload_for_them) {
  const Outcome outcome = faibench({"run", "--tasks", "coalesced_matrix_transpose", "--dry-run"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rank 0: "));
  EXPECT_THAT(outcome.out, HasSubstr(", " + fake_uuid(0)));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("coalesced_matrix_transpose/cuda +gpu"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("coalesced_matrix_transpose/cpu +standard"));
}

TEST_F(ProgramOnGpus, doctor_lists_them_by_uuid) {
  const Outcome text = faibench({"doctor", "--no-measure"});
  for (int device : {0, 1}) EXPECT_THAT(text.out, HasSubstr(fake_uuid(device) + ": Fake GPU, sm_90"));
  EXPECT_THAT(text.out, HasSubstr("580.65.06"));
  const auto json = nlohmann::json::parse(faibench({"doctor", "--no-measure", "--json"}).out);
  ASSERT_EQ(json["use"]["gpus"].size(), 2u);
  EXPECT_EQ(json["use"]["gpus"][1]["uuid"], fake_uuid(1));
  EXPECT_EQ(json["audit"]["ranks"][0]["gpu"], fake_uuid(0));
  EXPECT_THAT(faibench({"doctor", "--no-measure"}, {{"CUDA_VISIBLE_DEVICES="}, {}}).out, HasSubstr("none: cudaErrorNoDevice"));
}

}  // namespace
}  // namespace faibench::testing_support
