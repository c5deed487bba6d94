#include "cluster/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "communicator/communicator.h"
#include "tensor/random.h"

namespace faibench {
namespace {

using testing::HasSubstr;

// Every rank holds a row and a shared scale; every rank must end with the sum of all rows, scaled.
void sum(Communicator& communicator, Arguments& arguments) {
  const TensorRef& row = arguments.inputs.at("row");
  const TensorRef& out = arguments.outputs.at("out");
  communicator.all_reduce(row.data, out.data, row.size(), Dtype::i64, Reduce::sum);
  const auto scale = arguments.inputs.at("scale").flat<const std::int64_t>()[0];
  for (std::int64_t& x : out.flat<std::int64_t>()) x *= scale;
}

Rejected mismatch(MultiRank::Call& call) {
  const auto scale = call.arguments.inputs.at("scale").flat<const std::int64_t>()[0];
  const std::int64_t own[] = {scale, call.arguments.inputs.at("row").size(), -scale, -call.arguments.inputs.at("row").size()};
  std::int64_t most[4];
  call.communicator.all_reduce(own, most, 4, Dtype::i64, Reduce::max);
  if (most[0] != -most[2] || most[1] != -most[3]) return reject("rank_mismatch", "scale", -1, "unequal", "ranks differ");
  return std::nullopt;
}

Rejected good(MultiRank::Call& call) {
  if (auto rejected = mismatch(call)) return rejected;
  sum(call.communicator, call.arguments);
  return std::nullopt;
}

Task task_with(std::function<Rejected(MultiRank::Call&)> candidate) {
  Task task;
  task.name = "sum_of_rows";
  MultiRank form;
  form.contract.input("row", {Dtype::i64}, {"10"}, "this rank's row");
  form.contract.input("scale", {Dtype::i64}, {"1"}, "the same on all ranks");
  form.contract.output("out", {Dtype::i64}, {"10"}, "scaled sum of all rows");
  form.contract.rule("rank_mismatch", "ranks differ", CheckedBy::variant, [](const TensorRefMap&) { return Rejected(); });
  form.variants = {{"mpi_baseline", good, ""}, {"mpi", std::move(candidate), ""}};
  form.workloads = {{"smoke", "", [](Random& random, int ranks) {
                       TensorMap whole;
                       Tensor& rows = whole.add("rows", Tensor(Dtype::i64, {ranks, 10}));
                       for (std::int64_t& x : rows.flat<std::int64_t>()) x = random.below(1000);
                       whole.add("scale", Tensor::of<std::int64_t>({1}, {3}));
                       return whole;
                     }}};
  form.shard = [](const TensorMap& whole, int rank, int) {
    TensorMap own;
    Tensor& row = own.add("row", Tensor(Dtype::i64, {10}));
    std::memcpy(row.data(), whole.at("rows").data() + rank * row.bytes(), static_cast<std::size_t>(row.bytes()));
    own.add("scale", whole.at("scale").clone());
    return own;
  };
  form.gate = [](const TensorRefMap& whole, const std::vector<TensorMap>& outputs) -> GateResult {
    const auto rows = whole.at("rows").view<const std::int64_t, 2>();
    for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
      for (std::int64_t n = 0; n < 10; ++n) {
        std::int64_t wanted = 0;
        for (std::int64_t r = 0; r < rows.extent(0); ++r) wanted += 3 * rows(r, n);
        const std::int64_t got = outputs[rank].at("out").flat<const std::int64_t>()[static_cast<std::size_t>(n)];
        if (got != wanted) return Mismatch{"out", {n}, std::to_string(got), std::to_string(wanted), 0, "of rank " + std::to_string(rank)};
      }
    }
    return std::nullopt;
  };
  task.multi_rank = std::move(form);
  return task;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

GangOrder order_for_all() {
  GangOrder order;
  order.task = "sum_of_rows";
  order.variant = "mpi";
  order.workload = "smoke";
  for (int rank = world_size() - 1; rank >= 0; --rank) order.members.push_back(rank);  // gang order is not world order
  order.budget_seconds = 0.3;
  order.ref_speedup = 2;
  order.oversubscribed = true;
  return order;
}

GangSurroundings surroundings() {
  GangSurroundings given;
  given.world = MPI_COMM_WORLD;
  given.stop_wanted = [] { return false; };
  given.abandon = [](const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
    MPI_Abort(MPI_COMM_WORLD, 9);
  };
  return given;
}

// The record on the gang's first rank; a check on every rank that only that one has it.
std::optional<Record> judged(const Task& task, const GangOrder& order) {
  auto record = run_gang(order, task, surroundings());
  EXPECT_EQ(record.has_value(), world_rank() == order.members.front());
  return record;
}

TEST(Gang, passes_a_right_variant_with_samples_of_every_rank) {
  const auto record = judged(task_with(good), order_for_all());
  if (!record) return;
  EXPECT_EQ(record->verdict, Verdict::passed) << record->detail;
  EXPECT_EQ(record->ranks, world_size());
  EXPECT_GE(record->blocks, 6);
  EXPECT_EQ(record->samples.size(), static_cast<std::size_t>((record->blocks + 2) * world_size()));
  EXPECT_EQ(record->samples.front().block, -2);
  EXPECT_EQ(record->samples.back().rank, world_size() - 1);
  EXPECT_GT(record->seconds, 0);
  EXPECT_LE(record->speedup_low, record->speedup);
  EXPECT_FALSE(record->stop_reason.empty());
}

TEST(Gang, finds_one_wrong_element_on_the_last_rank) {
  const auto record = judged(task_with([](MultiRank::Call& call) {
                               auto rejected = good(call);
                               if (!rejected && call.communicator.rank() == call.communicator.size() - 1) ++call.arguments.outputs.at("out").flat<std::int64_t>()[7];
                               return rejected;
                             }),
                             order_for_all());
  if (!record) return;
  EXPECT_EQ(record->verdict, Verdict::wrong);
  EXPECT_THAT(record->detail, HasSubstr("out[7]"));
  EXPECT_EQ(record->score, 0);
}

TEST(Gang, wants_a_mismatch_of_ranks_reported_by_all) {
  if (world_size() < 2) return;  // no two ranks to differ
  const auto unaware = judged(task_with([](MultiRank::Call& call) -> Rejected {
                                sum(call.communicator, call.arguments);
                                return std::nullopt;
                              }),
                              order_for_all());
  if (unaware) {
    EXPECT_EQ(unaware->verdict, Verdict::wrong);
    EXPECT_EQ(unaware->reason, "not_rejected");
  }
  const auto hasty = judged(task_with([](MultiRank::Call& call) {
                              call.arguments.outputs.at("out").flat<std::int64_t>()[0] = 1;
                              return good(call);
                            }),
                            order_for_all());
  if (hasty) { EXPECT_THAT(hasty->detail, HasSubstr("wrote output before it rejected")); }
  const auto other_code = judged(task_with([](MultiRank::Call& call) -> Rejected {
                                   auto rejected = good(call);
                                   if (rejected && call.communicator.rank() == 0) rejected->code = "odd";
                                   return rejected;
                                 }),
                                 order_for_all());
  if (other_code) { EXPECT_EQ(other_code->reason, "wrong_code"); }
}

TEST(Gang, finds_a_changed_input_and_a_rejected_valid_one) {
  const auto changed = judged(task_with([](MultiRank::Call& call) {
                                auto rejected = good(call);
                                if (call.communicator.rank() == 0) ++call.arguments.inputs.at("row").flat<std::int64_t>()[0];
                                return rejected;
                              }),
                              order_for_all());
  if (changed) { EXPECT_THAT(changed->detail, HasSubstr("changed its input")); }
  const auto rejecting = judged(task_with([](MultiRank::Call& call) -> Rejected {
                                  if (auto rejected = good(call)) return rejected;
                                  return call.communicator.rank() == 0 ? Rejected(reject("no", "row", 0, "1", "not liked")) : std::nullopt;
                                }),
                                order_for_all());
  if (rejecting) { EXPECT_THAT(rejecting->detail, HasSubstr("rejected a valid input")); }
}

TensorMap rows_of(Random& random, int ranks) { return task_with(good).multi_rank->workloads[0].inputs(random, ranks); }

TEST(Gang, runs_the_fixed_cases_and_names_the_one_that_fails) {
  Task task = task_with(good);
  std::atomic<int> valid = 0, damaged = 0;
  task.multi_rank->cases.push_back({"plain", "", [&](Random& random, int ranks) {
                                      ++valid;
                                      return rows_of(random, ranks);
                                    }});
  task.multi_rank->cases.push_back({"odd_scale", "", rows_of,
                                    [&](Random&, TensorMap& shard, int rank, int) {
                                      ++damaged;
                                      if (rank == 0) ++shard.at("scale").flat<std::int64_t>()[0];
                                    },
                                    [](int ranks) { return ranks > 1 ? "rank_mismatch" : ""; }});
  const auto record = judged(task, order_for_all());
  EXPECT_EQ(valid, 1);
  EXPECT_EQ(damaged, world_size() > 1 ? 1 : 0);
  if (record) {
    EXPECT_EQ(record->verdict, Verdict::passed) << record->detail;
    EXPECT_GE(record->cases, 5);
  }
  if (world_size() < 2) return;
  task.multi_rank->cases.back().code = [](int) { return "scale_mismatch"; };
  const auto other = judged(task, order_for_all());
  if (other) {
    EXPECT_EQ(other->reason, "wrong_code");
    EXPECT_THAT(other->detail, HasSubstr("case odd_scale: gang rank 0 said rank_mismatch, not scale_mismatch"));
  }
}

// What the runner itself finds in one rank's shard is everybody's answer: nobody waits in the variant for the one that never comes.
TEST(Gang, an_invalid_shard_of_one_rank_is_rejected_by_all) {
  Task task = task_with(good);
  task.multi_rank->cases.push_back({"no_row", "", rows_of, [](Random&, TensorMap& shard, int rank, int ranks) { if (rank + 1 == ranks) shard.erase("row"); }, [](int) { return "missing_tensor"; }});
  const auto record = judged(task, order_for_all());
  if (record) { EXPECT_EQ(record->verdict, Verdict::passed) << record->detail; }
}

TEST(Gang, finds_outputs_that_differ_between_ranks_although_the_gate_accepts_them) {
  if (world_size() < 2) return;
  Task task = task_with([](MultiRank::Call& call) {
    auto rejected = good(call);
    if (!rejected) call.arguments.outputs.at("out").flat<std::int64_t>()[9] = call.communicator.rank();
    return rejected;
  });
  task.multi_rank->gate = [](const TensorRefMap&, const std::vector<TensorMap>&) -> GateResult { return std::nullopt; };
  const auto lax = judged(task, order_for_all());
  if (lax) { EXPECT_EQ(lax->verdict, Verdict::passed) << lax->detail; }
  task.multi_rank->identical = {"out"};
  const auto strict = judged(task, order_for_all());
  if (strict) {
    EXPECT_EQ(strict->verdict, Verdict::wrong);
    EXPECT_THAT(strict->detail, HasSubstr("output out of gang rank 1 differs in bits"));
  }
}

TEST(Gang, relabels_the_ranks_in_the_gate_by_the_seed) {
  if (world_size() < 2) return;
  int own_places = 0, other_places = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    GangOrder order = order_for_all();
    order.gate_only = true;
    order.seed = seed;
    judged(task_with([&](MultiRank::Call& call) {
             ++(order.members[static_cast<std::size_t>(call.communicator.rank())] == world_rank() ? own_places : other_places);
             return good(call);
           }),
           order);
  }
  std::int64_t moved = other_places;
  MPI_Allreduce(MPI_IN_PLACE, &moved, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_GT(moved, 0);
}

TEST(Gang, gives_registered_variants_memory_that_their_peers_reach) {
  Task task = task_with([](MultiRank::Call& call) {
    for (const char* name : {"row", "scale"})
      for (int peer = 0; peer < call.communicator.size(); ++peer) EXPECT_NE(call.communicator.peer_address(peer, call.arguments.inputs.at(name).data), nullptr);
    EXPECT_NE(call.communicator.peer_address(0, call.arguments.outputs.at("out").data), nullptr);
    return good(call);
  });
  task.multi_rank->variants.back().registered = true;
  const auto record = judged(task, order_for_all());
  if (record) { EXPECT_EQ(record->verdict, Verdict::passed) << record->detail; }
  ::setenv("FAIBENCH_SHARED_MEMORY", "0", 1);
  const auto without = judged(task, order_for_all());
  ::unsetenv("FAIBENCH_SHARED_MEMORY");
  if (without) {
    EXPECT_EQ(without->verdict, Verdict::skipped);
    EXPECT_THAT(without->reason, HasSubstr("switched off"));
  }
}

TEST(Gang, skips_variants_on_nccl_where_not_every_rank_has_a_gpu) {
  Task task = task_with(good);
  task.multi_rank->variants.back().on_nccl = true;
  const auto record = judged(task, order_for_all());
  if (record && record->verdict != Verdict::passed) {  // enough GPUs: it ran
    EXPECT_EQ(record->verdict, Verdict::skipped) << record->detail;
    EXPECT_FALSE(record->reason.empty());
  }
}

TEST(Gang, records_peers_without_a_score) {
  Task task = task_with(good);
  task.multi_rank->variants.back().name = "peer:mpi";
  GangOrder order = order_for_all();
  order.variant = "peer:mpi";
  order.ref_speedup = 0;  // an implementation task: passing alone would be worth 1
  const auto record = judged(task, order);
  if (record) {
    EXPECT_EQ(record->verdict, Verdict::passed) << record->detail;
    EXPECT_GT(record->seconds, 0);
    EXPECT_EQ(record->score, 0);
  }
}

TEST(Gang, leaves_out_the_ranks_that_are_not_members) {
  GangOrder order = order_for_all();
  order.members.resize(static_cast<std::size_t>((world_size() + 1) / 2));
  order.gate_only = true;
  if (std::ranges::find(order.members, world_rank()) != order.members.end()) {
    const auto record = judged(task_with(good), order);
    if (record) {
      EXPECT_EQ(record->ranks, static_cast<int>(order.members.size()));
      EXPECT_EQ(record->verdict, Verdict::passed);
      EXPECT_EQ(record->blocks, 0);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Gang, stops_together_when_one_member_was_told_to) {
  std::atomic<int> calls = 0;
  GangSurroundings told = surroundings();
  told.stop_wanted = [&] { return world_rank() == 0 && calls > 3; };
  const Task task = task_with([&](MultiRank::Call& call) {
    ++calls;
    return good(call);
  });
  GangOrder order = order_for_all();
  order.budget_seconds = 1e6;
  EXPECT_FALSE(run_gang(order, task, told));
}

// Half a second past its time in the gate. A busy machine may not get as far as the gate in that time: then with more of it.
TEST(Gang, names_task_and_stage_when_its_time_is_over) {
  const GangOrder all = order_for_all();
  std::int64_t reached = 0;
  for (int limit = 1; limit <= 16 && !reached; limit *= 4) {
    std::string line;
    GangSurroundings patient = surroundings();
    patient.abandon = [&](const std::string& text) { line = text; };  // the real one does not return
    GangOrder order = all;
    order.limit_seconds = limit;
    order.gate_only = true;
    bool slept = false;
    const Task task = task_with([&](MultiRank::Call& call) {
      if (!std::exchange(slept, true)) std::this_thread::sleep_for(std::chrono::milliseconds(1000 * limit + 500));
      return good(call);
    });
    run_gang(order, task, patient);
    if (world_rank() == all.members.front()) {
      EXPECT_THAT(line, HasSubstr("sum_of_rows/mpi@"));
      EXPECT_THAT(line, HasSubstr("not done after " + std::to_string(limit) + " s"));
      reached = line.find("'gate on smoke'") != std::string::npos;
    } else {
      EXPECT_EQ(line, "");  // the first one speaks
    }
    MPI_Bcast(&reached, 1, MPI_INT64_T, all.members.front(), MPI_COMM_WORLD);
  }
  EXPECT_TRUE(reached) << "never in the gate";
}

TEST(Gang, ends_everybody_when_a_member_throws) {
  if (world_size() > 1) return;  // alone, the exception itself can be looked at
  std::string line;
  GangSurroundings told = surroundings();
  told.abandon = [&](const std::string& text) { line = text; };
  const Task task = task_with([](MultiRank::Call&) -> Rejected { throw std::runtime_error("out of luck"); });
  EXPECT_THROW(run_gang(order_for_all(), task, told), std::runtime_error);
  EXPECT_THAT(line, HasSubstr("rank 0, in 'gate on smoke': out of luck"));
}

}  // namespace
}  // namespace faibench
