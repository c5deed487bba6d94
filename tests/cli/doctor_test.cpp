#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::faibench;
using testing_support::Outcome;
using testing_support::Scratch;

TEST(Doctor, tells_machine_build_and_what_a_run_will_use) {
  const Scratch scratch;
  const Outcome outcome = faibench({"doctor", "--no-measure"}, {{}, scratch.path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"This machine\n", "processor", "instruction sets", "This build\n", "HDF5", "What a run will use\n", "timing slots", "Measured peaks\n"}) EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(Doctor, json_has_the_processors_it_may_use) {
  const json answer = json::parse(faibench({"doctor", "--no-measure", "--json"}).out);
  EXPECT_EQ(answer["format"], "faibench-doctor/1");
  EXPECT_GE(answer["use"]["cpus"].size(), 1u);
  EXPECT_TRUE(answer["peaks"].is_null());
  EXPECT_FALSE(answer["provenance"]["hosts"].empty());
}

TEST(Doctor, measures_the_peaks) {
  const json answer = json::parse(faibench({"doctor", "--json"}).out);
  ASSERT_FALSE(answer["peaks"].is_null()) << answer["peaks_missing"];
  EXPECT_GT(answer["peaks"]["copy_bytes_per_second"].get<double>(), 1e8);
  EXPECT_GT(answer["peaks"]["operations_per_second"].get<double>(), 1e8);
  EXPECT_GT(answer["peaks"]["handshake_seconds"].get<double>(), 0);
}

TEST(Doctor, a_missing_worker_keeps_a_run_from_working) {
  const Outcome outcome = faibench({"doctor"}, {{"FAIBENCH_WORKER=/no/such/worker"}, ""});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("What keeps a run from working"));
  EXPECT_THAT(outcome.out, HasSubstr("/no/such/worker"));
}

}  // namespace
}  // namespace faibench
