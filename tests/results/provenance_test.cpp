#include "results/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "tensor/error.h"

namespace faibench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Pair;

std::string error_of(const std::string& text) {
  try {
    provenance_from_json(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Provenance, comes_back_from_json) {
  Provenance p = collect_local({"faibench", "run", "--tasks", "a b*"});
  p.seed = 18446744073709551615u;
  p.world_size = 4;
  p.hosts.push_back(p.hosts.front());
  p.hosts.back().name = "other";
  p.hosts.back().ranks = {2, 3};
  p.hosts.back().gpus = {"H100", "H100"};
  p.hosts.back().copy_bytes_per_second = 0.1 + 0.2;
  p.ranks = {collect_rank(), collect_rank()};
  p.ranks[1].rank = 1;
  p.ranks[1].gpus = {"GPU-a"};
  p.ranks[1].environment = {"OMP_NUM_THREADS=4"};
  p.audit = {"rank 1 on other has other settings"};
  EXPECT_EQ(to_json(provenance_from_json(to_json(p))), to_json(p));
  EXPECT_EQ(provenance_from_json(to_json(p)).ranks.at(1).environment, p.ranks[1].environment);
  EXPECT_EQ(provenance_from_json(to_json(p)).hosts.at(1).ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(to_json(host_from_json(to_json(p.hosts[1]))), to_json(p.hosts[1]));
}

TEST(Provenance, is_read_without_the_ranks_that_older_files_lack) {
  auto json = nlohmann::json::parse(to_json(collect_local()));
  json.erase("ranks");
  json.erase("audit");
  const Provenance back = provenance_from_json(json.dump());
  EXPECT_TRUE(back.ranks.empty());
  EXPECT_TRUE(back.audit.empty());
  json["ranks"] = {{{"rank", "one"}}};
  EXPECT_THAT(error_of(json.dump()), HasSubstr("ranks[0]: field 'rank'"));
}

TEST(Provenance, knows_its_rank) {
  setenv("OMP_PROC_BIND", "close", 1);
  setenv("OMPI_MCA_orte_ess_node_rank", "1", 1);
  const RankFacts rank = collect_rank();
  unsetenv("OMP_PROC_BIND");
  unsetenv("OMPI_MCA_orte_ess_node_rank");
  EXPECT_FALSE(rank.host.empty());
  EXPECT_THAT(rank.mpi, HasSubstr("MPI"));
  EXPECT_GT(rank.memory_available_bytes, 0);
  EXPECT_THAT(rank.environment, Contains("OMP_PROC_BIND=close"));
  EXPECT_THAT(rank.environment, testing::Not(Contains("OMPI_MCA_orte_ess_node_rank=1")));
}

TEST(Provenance, knows_this_build_and_machine) {
  const Provenance p = collect_local({"faibench", "run", "--out", "it's.h5"});
  EXPECT_THAT(p.version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(p.commit, MatchesRegex("unknown|[0-9a-f]{7,40}(-dirty)?"));
  EXPECT_THAT(p.compiler, HasSubstr("GNU"));
  EXPECT_THAT(p.flags, HasSubstr("-ffp-contract=off"));
  EXPECT_THAT(p.hdf5, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(p.mpi, testing::ContainsRegex("MPI.*(, takes (no )?device memory)?$"));
  EXPECT_EQ(p.command_line, "faibench run --out 'it'\\''s.h5'");
  EXPECT_THAT(p.started, MatchesRegex("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"));
  ASSERT_EQ(p.hosts.size(), 1u);
  const HostFacts& host = p.hosts.front();
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  EXPECT_EQ(host.name, name);
  EXPECT_THAT(host.topology, HasSubstr("core"));
  EXPECT_GT(host.memory_bytes, 1 << 20);
  EXPECT_THAT(host.machine_class, HasSubstr(host.cpu_model));
  EXPECT_EQ(p.machine_class, host.machine_class);
}

TEST(Provenance, keeps_the_environment_that_matters_and_no_more) {
  setenv("OMP_PROC_BIND", "close", 1);
  setenv("SLURM_JOB_ID", "4711", 1);
  setenv("MY_PASSWORD", "secret", 1);
  setenv("SLURM_JWT", "secret", 1);
  const Provenance p = collect_local();
  unsetenv("SLURM_JOB_ID");
  EXPECT_THAT(p.environment, Contains(Pair("OMP_PROC_BIND", "close")));
  EXPECT_THAT(p.environment, Contains(Pair("SLURM_JOB_ID", "4711")));
  EXPECT_EQ(p.slurm_job_id, "4711");
  EXPECT_THAT(to_json(p), testing::Not(HasSubstr("secret")));
  EXPECT_EQ(collect_local().slurm_job_id, "");
}

TEST(Provenance, names_the_place_at_fault) {
  auto json = nlohmann::json::parse(to_json(collect_local()));
  json["hosts"][0]["ranks"] = "0-3";
  EXPECT_EQ(error_of(json.dump()), "hosts[0]: field 'ranks' is string, must be an array of integers");
  json["hosts"] = 3;
  EXPECT_EQ(error_of(json.dump()), "field 'hosts' is number, must be an array");
  json["environment"] = {{"A", 1}};
  EXPECT_EQ(error_of(json.dump()), "field 'environment.A' is number, must be a string");
  json.erase("commit");
  EXPECT_EQ(error_of(json.dump()), "field 'commit' is missing");
}

}  // namespace
}  // namespace faibench
