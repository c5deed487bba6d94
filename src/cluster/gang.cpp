#include "cluster/gang.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include "cluster/deadline.h"
#include "cluster/gang_member.h"
#include "communicator/mpi_communicator.h"
#include "judge/statistics.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace faibench {
namespace {

constexpr int gate_rounds = 3;                  // input sets of the gate before anything is timed
constexpr double shortest_block_seconds = 2e-4; // below, calls are repeated within a block, each on inputs of its own
constexpr int most_calls = 32;
constexpr double too_noisy = 0.5;               // relative half-width above which the blocks say nothing

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double unix_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// What this member is doing, for whoever must say where it hung.
class Stage {
 public:
  explicit Stage(const std::function<void(const std::string&)>& begins) : begins_(begins) { set("start"); }
  void set(std::string text) {
    if (begins_) begins_(text);
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::string get() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  const std::function<void(const std::string&)>& begins_;
  std::string text_;
};

class GangItem {
 public:
  GangItem(const GangOrder& order, const Task& task, Communicator& communicator, const std::function<bool()>& stop_wanted, Stage& stage)
      : order_(order), task_(task), baseline_(task.multi_rank->variants.front()), variant_(find_variant()), communicator_(communicator), transport_(transport_over(communicator)),
        member_(communicator, transport_.get(), task), stop_wanted_(stop_wanted), stage_(stage) {}

  // Empty where the members agreed to stop.
  std::optional<Record> run() {
    Record record = blank();
    if (!why_no_transport_.empty()) {
      set_skipped(record, why_no_transport_);
      return record;
    }
    const double start = now();
    try {
      if (!run(record)) return std::nullopt;
    } catch (const NotShared& none) {
      set_skipped(record, none.why);
    }
    record.wall_seconds = now() - start;
    return record;
  }

 private:
  struct Wrong {
    std::string reason, detail;
  };

  // False where the members agreed to stop.
  bool run(Record& record) {
    const MultiRank::RankWorkload& workload = find_workload(order_.workload);
    if (auto wrong = gate(record, workload)) {
      set_wrong(record, *wrong);
    } else if (stopped_) {
      return false;
    } else {
      record.verdict = Verdict::passed;
      if (!order_.gate_only && !measure(record, workload)) return false;
    }
    const bool scored = record.verdict == Verdict::passed && !order_.variant.starts_with("peer:");  // peers are shown, never scored
    if (scored) record.score = !record.performance ? 1 : order_.gate_only ? 0 : log_score(record.speedup_low, record.ref_speedup);
    return true;
  }

  // What a variant on NCCL is called with; the reason where this gang has none.
  std::unique_ptr<Communicator> transport_over(Communicator& communicator) {
    return transport_of(variant_, communicator, why_no_transport_);
  }

  const MultiRank::RankVariant& find_variant() const {
    for (const auto& variant : task_.multi_rank->variants) {
      if (variant.name == order_.variant) return variant;
    }
    throw Error(Error::Kind::internal, task_.name + " has no multi-rank variant '" + order_.variant + "'");
  }
  const MultiRank::RankWorkload& find_workload(const std::string& name) const {
    for (const auto& workload : task_.multi_rank->workloads) {
      if (workload.name == name) return workload;
    }
    throw Error(Error::Kind::internal, task_.name + " has no multi-rank workload '" + name + "'");
  }

  Record blank() const {
    Record record;
    record.task = task_.name;
    record.group = task_.group;
    record.variant = order_.variant;
    record.workload = order_.workload;
    record.ranks = member_.size();
    record.seed = order_.seed;
    record.performance = order_.ref_speedup > 0;
    record.ref_speedup = order_.ref_speedup;
    record.threads = order_.threads;
    record.started = unix_time();
    if (order_.oversubscribed) record.flags.push_back("oversubscribed");
    return record;
  }

  static void set_wrong(Record& record, const Wrong& wrong) {
    record.verdict = Verdict::wrong;
    record.reason = wrong.reason;
    record.detail = wrong.detail;
  }

  static void set_skipped(Record& record, const std::string& why) {
    record.verdict = Verdict::skipped;
    record.reason = why;
  }

  bool agreed_to_stop() { return stopped_ = member_.any(stop_wanted_()); }

  // The task's fixed cases, then small inputs, then the workload's own, then input that some rank must not accept: with the ranks in an order of the seed's, so that nobody can count on being the first.
  std::optional<Wrong> gate(Record& record, const MultiRank::RankWorkload& workload) {
    Random order_of_ranks("gang ranks", order_.task, order_.seed, 0);
    const auto key = static_cast<int>(order_of_ranks.stream(static_cast<std::uint64_t>(member_.rank())).below(1 << 30));
    const auto relabelled = communicator_.split(0, key);
    const auto transport = transport_over(*relabelled);
    GangMember member(*relabelled, transport.get(), task_);

    bool damages = false;
    for (const MultiRank::RankCase& c : task_.multi_rank->cases) {
      stage_.set("case " + c.name);
      if (agreed_to_stop()) return std::nullopt;
      ++record.cases;
      damages |= static_cast<bool>(c.damage);
      if (auto wrong = gate_case(member, c)) return wrong;
    }
    const auto& workloads = task_.multi_rank->workloads;
    for (int round = 0; round < gate_rounds; ++round) {
      const bool last = round + 1 == gate_rounds;
      const MultiRank::RankWorkload& inputs = last ? workload : workloads[static_cast<std::size_t>(round) % workloads.size()].name == workload.name ? workload : workloads.front();
      stage_.set("gate on " + inputs.name);
      if (agreed_to_stop()) return std::nullopt;
      const GangMember::Input input = member.input(inputs, order_.seed, static_cast<std::uint64_t>(1'000'000 + round));
      ++record.cases;
      if (auto wrong = member.judge(input.whole, member.call(variant_, input.shard))) return Wrong{"value", "gate on " + inputs.name + ": " + *wrong};
    }
    return damages ? std::nullopt : gate_of_mismatches(record, workloads.front());
  }

  std::optional<Wrong> gate_case(GangMember& member, const MultiRank::RankCase& c) {
    Random random(task_.name, c.name, order_.seed, 0);
    const TensorMap whole = c.inputs(random, member.size());
    TensorMap shard = member.shard(whole);
    const std::string wanted = c.damage && c.code ? c.code(member.size()) : "";
    const std::string what = "case " + c.name + ": ";
    if (wanted.empty()) {
      if (auto wrong = member.judge(whole, member.call(variant_, shard))) return Wrong{"value", what + *wrong};
      return std::nullopt;
    }
    c.damage(random, shard, member.rank(), member.size());
    return rejected_by_all(member, member.call(variant_, shard), wanted, what);
  }

  std::optional<Wrong> rejected_by_all(GangMember& member, const GangMember::Call& call, const std::string& wanted, const std::string& what) {
    if (const int rank = member.first_that(!call.rejected); rank >= 0) return Wrong{"not_rejected", what + "gang rank " + std::to_string(rank) + " did not reject it with " + wanted};
    if (const int rank = member.first_that(call.rejected->code != wanted); rank >= 0) {
      return Wrong{"wrong_code", what + "gang rank " + std::to_string(rank) + " said " + member.text_of(rank, call.rejected->code) + ", not " + wanted};
    }
    if (const int rank = member.first_that(!call.untouched); rank >= 0) return Wrong{"value", what + "gang rank " + std::to_string(rank) + " wrote output before it rejected"};
    if (const int rank = member.first_that(call.input_changed); rank >= 0) return Wrong{"value", what + "gang rank " + std::to_string(rank) + " changed its input"};
    return std::nullopt;
  }

  // For tasks without cases of their own for it.
  std::optional<Wrong> gate_of_mismatches(Record& record, const MultiRank::RankWorkload& workload) {
    const auto& rules = task_.multi_rank->contract.rules();
    const bool has_rule = std::ranges::any_of(rules, [](const Rule& rule) { return rule.code == "rank_mismatch"; });
    if (!has_rule || member_.size() < 2) return std::nullopt;
    const TensorMap whole = member_.whole(workload, order_.seed, 1'000'100);
    for (const auto& [name, tensor] : member_.shard(whole)) {
      for (const bool shorter : {false, true}) {
        TensorMap shard = member_.shard(whole);
        if (!spoil(shard, name, shorter)) continue;
        stage_.set("rank_mismatch of " + name);
        ++record.cases;
        const std::string what = shorter ? "one rank's " + name + " is shorter than the others'" : "one byte of " + name + " differs on one rank";
        if (auto wrong = rejected_by_all(member_, member_.call(variant_, shard), "rank_mismatch", what + ": ")) return wrong;
      }
    }
    return std::nullopt;
  }

  // Makes the last rank's tensor unlike the others' where the contract forbids that: another byte in a tensor that all ranks share, or a row less where this is
  // valid for one rank alone. False (on every member alike) where it would be no mismatch.
  bool spoil(TensorMap& shard, const std::string& name, bool shorter) {
    Tensor& tensor = shard.at(name);
    const auto bytes = static_cast<std::size_t>(tensor.bytes());
    const auto hash = static_cast<std::int64_t>(stable_hash({reinterpret_cast<const char*>(tensor.data()), bytes}) >> 1);
    const bool same_everywhere = !member_.any(member_.from_leader(hash) != hash);
    const bool victim = member_.rank() + 1 == member_.size();
    if (!shorter) {
      if (!same_everywhere || bytes == 0) return false;
      if (victim) tensor.data()[bytes / 2] ^= std::byte{1};
      return true;
    }
    if (tensor.shape().empty() || tensor.shape()[0] < 2) return false;
    TensorRef less = tensor.ref();
    --less.shape[0];
    Tensor cut = Tensor::copy_of(less);
    if (victim) tensor = std::move(cut);
    Dims dims;
    const bool valid_alone = !task_.multi_rank->contract.check_general(refs(shard), dims) && !task_.multi_rank->contract.check_rules(refs(shard), CheckedBy::runner);
    return !member_.any(!valid_alone);
  }

  struct Block {
    double baseline_seconds = 0, seconds = 0;          // per call, the slowest member's
    double own_baseline_seconds = 0, own_seconds = 0;  // per call, this member's
    bool baseline_first = false;
    std::optional<Wrong> wrong;
  };

  Block block(const MultiRank::RankWorkload& workload, int calls, bool baseline_first) {
    Block result;
    result.baseline_first = baseline_first;
    std::vector<GangMember::Input> inputs;
    for (int c = 0; c < calls; ++c) inputs.push_back(member_.input(workload, order_.seed, repetition_++));
    std::vector<GangMember::Call> made;
    for (const bool baseline_turn : {baseline_first, !baseline_first}) {
      std::vector<double> seconds;
      made.clear();
      for (const GangMember::Input& input : inputs) {
        made.push_back(member_.call(baseline_turn ? baseline_ : variant_, input.shard));
        seconds.push_back(made.back().seconds);
      }
      double own = 0, slowest = 0;
      for (double s : seconds) own += s / calls;
      for (double s : member_.slowest(seconds)) slowest += s / calls;
      (baseline_turn ? result.own_baseline_seconds : result.own_seconds) = own;
      (baseline_turn ? result.baseline_seconds : result.seconds) = slowest;
      for (std::size_t c = 0; c < made.size(); ++c) {  // between the two turns: gating is not timed
        if (auto wrong = member_.judge(inputs[c].whole, made[c])) {
          if (baseline_turn) throw Error(Error::Kind::internal, task_.name + ": the multi-rank baseline fails the gate: " + *wrong);
          result.wrong = Wrong{"value", "timed call: " + *wrong};
          return result;
        }
      }
    }
    return result;
  }

  // Orders come in pairs, one of each, in random sequence: the same on every member.
  bool next_order() {
    if (pending_order_) return std::exchange(pending_order_, std::nullopt).value();
    const bool baseline_first = order_of_turns_.chance(0.5);
    pending_order_ = !baseline_first;
    return baseline_first;
  }

  // False where the members agreed to stop.
  bool measure(Record& record, const MultiRank::RankWorkload& workload) {
    std::vector<Block> blocks;
    int calls = 1, warm_ups = 0;
    for (; warm_ups < 2; ++warm_ups) {
      stage_.set("warm-up");
      if (agreed_to_stop()) return false;
      blocks.push_back(block(workload, calls, next_order()));
      if (finish_wrong(record, blocks)) return true;
      const double shorter = std::min(blocks.back().seconds, blocks.back().baseline_seconds);
      calls = static_cast<int>(member_.from_leader(std::clamp(static_cast<int>(std::ceil(shortest_block_seconds / std::max(shorter, 1e-9))), 1, most_calls)));
    }
    StopRule rule;
    rule.budget_seconds = record.performance ? order_.budget_seconds : order_.budget_seconds / 4;
    std::vector<double> ratios;
    const double start = now();
    for (;;) {
      stage_.set("block " + std::to_string(ratios.size()));
      if (agreed_to_stop()) return false;
      blocks.push_back(block(workload, calls, next_order()));
      if (finish_wrong(record, blocks)) return true;
      ratios.push_back(blocks.back().baseline_seconds / blocks.back().seconds);
      const char* reason = member_.leads() ? rule.decide(ratios, now() - start, order_.seed) : "";
      record.stop_reason = reason;
      if (member_.from_leader(*reason ? 1 : 0) != 0) break;
    }
    summarize(record, blocks, warm_ups, calls, ratios, workload);
    stage_.set("report");
    if (variant_.report) record.note = member_.report(variant_, member_.input(workload, order_.seed, 0).shard);
    return true;
  }

  bool finish_wrong(Record& record, const std::vector<Block>& blocks) {
    if (!blocks.back().wrong) return false;
    set_wrong(record, *blocks.back().wrong);
    return true;
  }

  void summarize(Record& record, const std::vector<Block>& blocks, int warm_ups, int calls, const std::vector<double>& ratios, const MultiRank::RankWorkload& workload) {
    std::vector<double> baselines, candidates, own;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      own.insert(own.end(), {blocks[b].own_baseline_seconds, blocks[b].own_seconds});
      if (static_cast<int>(b) < warm_ups) continue;
      baselines.push_back(blocks[b].baseline_seconds);
      candidates.push_back(blocks[b].seconds);
    }
    const auto rows = member_.gather(own);
    if (!member_.leads()) return;
    const std::vector<bool> far = outliers(ratios);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const int number = static_cast<int>(b) - warm_ups;
      for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        Sample sample{.block = number, .rank = static_cast<int>(rank), .calls = calls, .baseline_seconds = rows[rank][2 * b], .seconds = rows[rank][2 * b + 1]};
        if (number < 0 && b == 0) sample.calls = 1;
        sample.ratio = blocks[b].baseline_seconds / blocks[b].seconds;  // of the slowest members: the block's, the same for every rank
        sample.baseline_first = blocks[b].baseline_first;
        if (number >= 0 && far[static_cast<std::size_t>(number)]) sample.flags |= Sample::outlier;
        record.samples.push_back(sample);
      }
    }
    if (const auto count = std::ranges::count(far, true)) record.flags.push_back("outliers:" + std::to_string(count));
    const Interval speedup = median_interval(ratios, order_.seed);
    record.speedup = speedup.median;
    record.speedup_low = speedup.low;
    record.speedup_high = speedup.high;
    record.baseline_seconds = median(baselines);
    record.seconds = median(candidates);
    record.blocks = static_cast<std::int64_t>(ratios.size());
    if (task_.multi_rank->wire_floor) {
      const Floor floor = task_.multi_rank->wire_floor(member_.whole(workload, order_.seed, 0), member_.size());
      record.floor_bytes = floor.bytes;
      record.floor_operations = floor.operations;
      record.bound = "wire";
    }
    // With more ranks than cores the scheduler's turns are measured, and said to be: the gate decides alone.
    if (speedup.relative_half_width() > too_noisy && !order_.oversubscribed) {
      record.verdict = Verdict::noisy;
      record.reason = "interval too wide";
      record.detail = "the 95% interval of the speedup is wider than the speedup itself; give it more time (--budget) or quieter machines";
    }
  }

  const GangOrder& order_;
  const Task& task_;
  const MultiRank::RankVariant& baseline_;
  const MultiRank::RankVariant& variant_;
  std::string why_no_transport_;  // of a variant on NCCL: skipped
  Communicator& communicator_;
  std::unique_ptr<Communicator> transport_;
  GangMember member_;
  const std::function<bool()>& stop_wanted_;
  Stage& stage_;
  Random order_of_turns_{"gang order", order_.task, order_.seed, 0};
  std::optional<bool> pending_order_;
  std::uint64_t repetition_ = 0;
  bool stopped_ = false;
};

// The members' own communicator, in gang order: collective over them alone.
class GangCommunicator {
 public:
  GangCommunicator(MPI_Comm world, const std::vector<int>& members) {
    MPI_Group all = MPI_GROUP_NULL, ours = MPI_GROUP_NULL;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &ours);
    MPI_Comm_create_group(world, ours, 0, &communicator_);
    MPI_Group_free(&ours);
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  }
  ~GangCommunicator() { MPI_Comm_free(&communicator_); }
  GangCommunicator(const GangCommunicator&) = delete;
  GangCommunicator& operator=(const GangCommunicator&) = delete;
  [[nodiscard]] MPI_Comm get() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace

std::optional<Record> run_gang(const GangOrder& order, const GangSurroundings& surroundings) {
  const Task* task = find_task(order.task);
  if (!task || !task->multi_rank) {
    surroundings.abandon("this rank's program has no multi-rank task '" + order.task + "'");
    return std::nullopt;
  }
  return run_gang(order, *task, surroundings);
}

std::optional<Record> run_gang(const GangOrder& order, const Task& task, const GangSurroundings& surroundings) {
  Stage stage(surroundings.stage_begins);
  const std::string label = order.task + "/" + order.variant + "@" + std::to_string(order.members.size());
  int world_rank = 0;
  MPI_Comm_rank(surroundings.world, &world_rank);
  // The gang's first rank speaks first; the others only if it is the one that is gone.
  const double patience = order.limit_seconds + (world_rank == order.members.front() ? 0 : 3);
  const Deadline deadline(patience, [&] {
    surroundings.abandon(label + ": not done after " + std::to_string(static_cast<int>(order.limit_seconds)) + " s; rank " + std::to_string(world_rank) + " waits in '" + stage.get() +
                         "'; the run ends here (what was judged is kept: --resume goes on)");
  });
  omp_set_num_threads(order.threads);
  try {
    const GangCommunicator gang(surroundings.world, order.members);
    const auto communicator = mpi_communicator(gang.get(), mpi_options_from_environment());
    GangItem item(order, task, *communicator, surroundings.stop_wanted, stage);
    auto record = item.run();
    return world_rank == order.members.front() ? std::move(record) : std::nullopt;
  } catch (const std::exception& e) {  // the others wait for this member in some collective: they can only be ended
    surroundings.abandon(label + ": rank " + std::to_string(world_rank) + ", in '" + stage.get() + "': " + e.what());
    throw;
  }
}

}  // namespace faibench
