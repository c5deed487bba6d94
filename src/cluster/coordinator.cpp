#include "cluster/coordinator.h"

#include <algorithm>
#include <set>

#include "cluster/gang.h"
#include "tensor/random.h"

namespace faibench {
namespace {

constexpr int most_judge_failures = 2;  // a judge that dies twice on one item is not bad luck

std::vector<WorkItem> work_of(const std::vector<PlanItem>& items, std::size_t count) {
  std::vector<WorkItem> work;
  for (std::size_t i = 0; i < count; ++i) work.push_back(items[i].work);
  return work;
}

std::vector<PlanItem> solo_first(std::vector<PlanItem> items) {
  std::ranges::stable_partition(items, [](const PlanItem& item) { return !item.gang; });
  return items;
}

// Members on the fullest host, and its cores.
bool oversubscribed(const Layout& layout, const std::vector<int>& members) {
  for (int node : layout.nodes) {
    const auto here = std::ranges::count_if(members, [&](int rank) { return layout.places[static_cast<std::size_t>(rank)].node == node; });
    if (here > layout.places[static_cast<std::size_t>(node)].host_cores) return true;
  }
  return false;
}

// The same for all members: what each has where its cores are its own, its share of them where they are not.
int threads_of_members(const Layout& layout, const std::vector<int>& members) {
  int threads = 1 << 20;
  for (int rank : members) {
    const auto& place = layout.places[static_cast<std::size_t>(rank)];
    const auto sharing = std::ranges::count_if(members, [&](int other) {
      const auto& theirs = layout.places[static_cast<std::size_t>(other)];
      return theirs.node == place.node && theirs.cores == place.cores;
    });
    threads = std::min(threads, std::max(1, static_cast<int>(place.cpus.size() / static_cast<std::size_t>(sharing))));
  }
  return threads;
}

}  // namespace

Record lost_record(const PlanItem& plan, std::uint64_t seed, std::string reason, std::string detail) {
  Record record;
  record.task = plan.task->name;
  record.group = plan.task->group;
  record.variant = plan.variant;
  record.asked_variant = plan.asked_variant;
  record.workload = plan.workload;
  record.emulated = plan.emulated;
  record.key = plan.key;
  record.ranks = plan.ranks;
  record.note = plan.note;
  record.seed = seed;
  record.ref_speedup = plan.ref_speedup;
  record.performance = plan.ref_speedup > 0;
  record.verdict = Verdict::lost;
  record.reason = std::move(reason);
  record.detail = std::move(detail);
  return record;
}

Coordinator::Coordinator(CoordinatorSettings settings, std::vector<PlanItem> items, std::int64_t already, Layout layout, Ledger& ledger, Progress& progress,
                         std::function<double()> clock)
    : settings_(settings), items_(solo_first(std::move(items))),
      solo_count_(static_cast<std::size_t>(std::ranges::count_if(items_, [](const PlanItem& item) { return !item.gang; }))), already_(already), layout_(std::move(layout)),
      ledger_(ledger), progress_(progress), clock_(std::move(clock)), schedule_(work_of(items_, solo_count_), layout_.seats), ranks_(layout_.places.size()),
      peaks_(layout_.places.size()), calibrations_(layout_.places.size(), 0), failures_(items_.size(), 0), judged_(items_.size(), false), next_gang_(solo_count_),
      done_(already), ranks_left_(static_cast<int>(layout_.places.size())) {}

void Coordinator::send(int to, RankMessage::Type type, int item, std::string text) { outbox_.emplace_back(to, RankMessage{type, item, std::move(text)}); }

void Coordinator::start() {
  progress_.started(std::to_string(items_.size()) + " to judge on " + std::to_string(ranks_.size()) + (ranks_.size() == 1 ? " rank" : " ranks") +
                        (already_ > 0 ? ", " + std::to_string(already_) + " judged before" : "") + ", results in " + ledger_.run_file().string(),
                    standing());
  const bool nothing_timed = std::all_of(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(solo_count_), [](const PlanItem& item) { return item.emulated; });
  for (int node : layout_.nodes) {
    if (settings_.gate_only || nothing_timed) {
      node_is_ready(node);
    } else {
      calibrate(node);
    }
  }
  hand_out();
}

void Coordinator::calibrate(int node) {
  JudgeJob job = job_for(node, {});
  job.kind = JudgeJob::Kind::calibrate;
  ++calibrations_[static_cast<std::size_t>(node)];
  rank_state(node) = {.item = calibration, .gone = false, .since = clock_()};
  send(node, RankMessage::Type::calibrate, -1, to_json(job));
}

void Coordinator::node_is_ready(int node) {
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    if (node_of(rank) == node) schedule_.rank_is_free(rank);
  }
}

JudgeJob Coordinator::job_for(int rank, const PlanItem& item) const {
  const auto r = static_cast<std::size_t>(rank);
  JudgeJob job;
  if (item.task) job.task = item.task->name;
  job.workload = item.workload;
  job.variant = item.variant;
  job.asked_variant = item.asked_variant;
  job.seed = settings_.seed;
  job.budget_seconds = settings_.budget_seconds;
  job.call_limit_seconds = settings_.call_limit_seconds;
  job.memory_limit_bytes = settings_.memory_limit_bytes;
  job.ref_speedup = item.ref_speedup;
  job.cpus = layout_.places[r].cpus;
  job.slot_files = layout_.slot_files[r];
  job.whole_task_in_slot = layout_.seats[r].whole_task_in_slot && !settings_.gate_only && !item.emulated;  // nothing is timed: nothing can be disturbed
  if (item.work.needs_gpu) {
    const GivenGpu& gpu = layout_.gpus[r];
    job.gpu = gpu.uuid;
    job.gpu_position = gpu.position;
    job.gpu_ranks = static_cast<int>(gpu.ranks.size());
    // Its processors' slot matters where other ranks run on them. Who shares a GPU holds it for the whole task: gating there takes its memory and its time.
    if (!layout_.seats[r].whole_task_in_slot) job.slot_files.clear();
    job.slot_files.push_back(layout_.gpu_slot_files[r]);
    job.whole_task_in_slot = (layout_.seats[r].whole_task_in_slot || gpu.ranks.size() > 1) && !settings_.gate_only;
  }
  job.gate_only = settings_.gate_only;
  job.emulate = item.emulated;
  job.peaks = peaks_[static_cast<std::size_t>(node_of(rank))];
  return job;
}

// Everything that may follow from an event: work for free ranks, then gangs, then the end.
void Coordinator::hand_out() {
  if (leaving_) return;
  while (const auto next = schedule_.next()) {
    rank_state(next->rank) = {.item = next->item, .gone = false, .since = clock_()};
    send(next->rank, RankMessage::Type::judge, next->item, to_json(job_for(next->rank, items_[static_cast<std::size_t>(next->item)])));
  }
  if (schedule_.waiting() + schedule_.in_flight() > 0 || gang_members_left_ > 0) return;
  if (next_gang_ < items_.size()) return start_next_gang();
  if (std::ranges::none_of(ranks_, [](const RankState& rank) { return rank.item == calibration; })) dismiss(RankMessage::Type::end);
}

void Coordinator::start_next_gang() {
  const auto item = static_cast<int>(next_gang_++);
  const PlanItem& plan = items_[static_cast<std::size_t>(item)];
  // Ranks in random order, so that no result depends on who is whose neighbour; the seed makes it the same order each time.
  Random random("gang", plan.label(), settings_.seed, 0);
  GangOrder order;
  for (std::int64_t rank : random.permutation(static_cast<std::int64_t>(ranks_.size()))) {
    if (static_cast<int>(order.members.size()) < plan.ranks) order.members.push_back(static_cast<int>(rank));
  }
  order.task = plan.task->name;
  order.variant = plan.variant;
  order.workload = plan.workload;
  order.seed = settings_.seed;
  order.budget_seconds = settings_.budget_seconds;
  order.limit_seconds = settings_.gang_limit_seconds > 0 ? settings_.gang_limit_seconds : 60 + 4 * settings_.budget_seconds;
  order.ref_speedup = plan.ref_speedup;
  order.gate_only = settings_.gate_only;
  order.threads = threads_of_members(layout_, order.members);
  order.oversubscribed = oversubscribed(layout_, order.members);
  ledger_.fold();  // a gang that hangs ends in MPI_Abort: what is judged is in the file by then
  gang_members_left_ = plan.ranks;
  for (int rank : order.members) {
    rank_state(rank) = {.item = item, .gone = false, .since = clock_()};
    send(rank, RankMessage::Type::gang, item, to_json(order));
  }
}

void Coordinator::dismiss(RankMessage::Type how) {
  if (leaving_) return;
  leaving_ = true;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) send(rank, how);
}

void Coordinator::stop(const std::string& why) {
  if (stopped_by_.empty()) stopped_by_ = why;
  dismiss(RankMessage::Type::stop);
}

void Coordinator::fail(const Error& error) {
  if (!error_) error_ = error;
  stop("an error");
}

void Coordinator::receive(int from, const RankMessage& message) {
  using Type = RankMessage::Type;
  switch (message.type) {
    case Type::peaks: take_peaks(from, message.text); break;
    case Type::verdict: take_verdict(from, message.item, message.text); break;
    case Type::judge_failed: take_failure(from, message.item, message.text); break;
    case Type::stage:
      if (message.item >= 0) progress_.stage(from, items_.at(static_cast<std::size_t>(message.item)).label(), message.text);
      break;
    case Type::gang_done:
      rank_state(from).item = nothing;
      if (gang_members_left_ > 0) --gang_members_left_;
      break;
    case Type::signal:
      if (signal_ == 0) signal_ = message.item;
      stop(message.text);
      break;
    case Type::fatal: fail(Error(static_cast<Error::Kind>(message.item), message.text)); break;
    case Type::bye:
      if (!std::exchange(rank_state(from).gone, true)) --ranks_left_;
      break;
    default: throw Error(Error::Kind::mpi, "rank " + std::to_string(from) + " sent the coordinator a '" + std::string(name_of(message.type)) + "' message");
  }
  hand_out();
}

void Coordinator::take_peaks(int from, const std::string& text) {
  if (rank_state(from).item != calibration) return;
  rank_state(from).item = nothing;
  const MachinePeaks peaks = peaks_from_json(text);
  peaks_[static_cast<std::size_t>(from)] = peaks;
  Provenance provenance = ledger_.provenance();
  for (HostFacts& host : provenance.hosts) {
    if (std::ranges::find(host.ranks, from) == host.ranks.end()) continue;
    host.copy_bytes_per_second = peaks.copy_bytes_per_second;
    host.cache_copy_bytes_per_second = peaks.cache_copy_bytes_per_second;
    host.operations_per_second = peaks.operations_per_second;
    host.handshake_seconds = peaks.handshake_seconds;
    host.noise_floor = peaks.noise_floor;
  }
  ledger_.update(provenance);
  node_is_ready(from);
}

void Coordinator::take_verdict(int from, int item, const std::string& text) {
  const bool gang = item >= static_cast<int>(solo_count_);
  if (item < 0 || item >= static_cast<int>(items_.size()) || rank_state(from).item != item || judged_[static_cast<std::size_t>(item)]) return;
  Record record = record_from_json(text);
  complete(item, record);
  if (!gang) {
    rank_state(from).item = nothing;
    expected_done_ += items_[static_cast<std::size_t>(item)].work.expected_seconds;
    seconds_done_ += clock_() - rank_state(from).since;
  }
  record_verdict(item, std::move(record));
  if (gang) return;
  schedule_.finished(item);
  schedule_.rank_is_free(from);
}

void Coordinator::take_failure(int from, int item, const std::string& why) {
  if (item < 0 && rank_state(from).item == calibration) {
    if (calibrations_[static_cast<std::size_t>(from)] < most_judge_failures) return calibrate(from);
    return fail(Error(Error::Kind::internal, "host " + layout_.places[static_cast<std::size_t>(from)].host + " cannot be calibrated: " + why));
  }
  if (item < 0 || item >= static_cast<int>(solo_count_) || rank_state(from).item != item || leaving_) return;
  rank_state(from).item = nothing;
  const PlanItem& plan = items_[static_cast<std::size_t>(item)];
  if (++failures_[static_cast<std::size_t>(item)] < most_judge_failures) {
    progress_.notice(plan.label() + ": the judge on rank " + std::to_string(from) + " failed (" + why + "); once more");
    schedule_.put_back(item);
  } else {
    Record record = lost_record(plan, settings_.seed, "judge", why);
    record.host = layout_.places[static_cast<std::size_t>(from)].host;
    record.rank = from;
    record.cpus = ranges_text(layout_.places[static_cast<std::size_t>(from)].cpus);
    record_verdict(item, std::move(record));
    schedule_.finished(item);
  }
  schedule_.rank_is_free(from);
}

void Coordinator::complete(int item, Record& record) const {
  const PlanItem& plan = items_[static_cast<std::size_t>(item)];
  record.key = plan.key;
  record.ranks = plan.ranks;
  if (!plan.note.empty()) record.note += (record.note.empty() ? "" : "; ") + plan.note;
}

void Coordinator::record_verdict(int item, Record record) {
  ledger_.append(record);  // on disk before anything else
  judged_[static_cast<std::size_t>(item)] = true;
  ++done_;
  const PlanItem& plan = items_[static_cast<std::size_t>(item)];
  const bool passed = record.verdict == Verdict::passed;
  progress_.verdict(plan.label(), record, standing());
  if (settings_.fail_fast && !passed) stop("--fail-fast");
}

void Coordinator::tick() {
  ledger_.fold_if_due(clock_());
  progress_.tick(standing());
}

Progress::Standing Coordinator::standing() const {
  Progress::Standing standing{.done = done_, .total = total()};
  double left = 0;
  std::vector<double> elapsed(items_.size(), 0);
  for (const RankState& rank : ranks_) {
    if (rank.item >= 0) elapsed[static_cast<std::size_t>(rank.item)] = clock_() - rank.since;
  }
  const double off = expected_done_ > 0 ? seconds_done_ / expected_done_ : 1;  // so far, expectations were off by this factor
  double gangs_left = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (judged_[i]) continue;
    if (elapsed[i] > 0) ++standing.running;
    (i < solo_count_ ? left : gangs_left) += std::max(0.1 * off, off * items_[i].work.expected_seconds - elapsed[i]);
  }
  // Ranks that hold a slot for whole tasks work one at a time in it.
  std::set<int> shared_slots;
  double workers = 0;
  for (const RankSeat& seat : layout_.seats) {
    if (!seat.whole_task_in_slot) ++workers;
    if (seat.whole_task_in_slot && shared_slots.insert(seat.slots.front()).second) ++workers;
  }
  standing.seconds_left = left / std::max(1.0, workers) + gangs_left;
  return standing;
}

std::vector<std::string> Coordinator::unfinished() const {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (!judged_[i]) labels.push_back(items_[i].label());
  }
  return labels;
}

}  // namespace faibench
