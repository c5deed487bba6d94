#include "scale/study.h"

#include <fmt/format.h>
#include <mpi.h>
#include <omp.h>
#include <unistd.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "cluster/launch.h"
#include "cluster/run.h"
#include "cluster/stop_signals.h"
#include "cluster/watchdog.h"
#include "scale/library_calls.h"
#include "scale/measure.h"
#include "scale/rank_group.h"
#include "scale/shard.h"
#include "scale/sizes.h"
#include "scale/study_files.h"
#include "scale/visits.h"
#include "schedule/traffic.h"
#include "task/names.h"
#include "tensor/random.h"

namespace faibench::scale {
namespace {

struct Cell {
  const Task* task;
  const MultiRank::RankVariant* variant;  // null: a call of the library alone
  const LibraryCall* library;
  std::int64_t bytes;
  int ranks;
  bool streaming;
  [[nodiscard]] const std::string& name() const { return variant ? variant->name : library->name; }
};

std::string key_of(const Cell& cell, std::uint64_t seed) {
  return fmt::format("{}|{}|{}|{}|{}|{}", cell.task->name, cell.name(), cell.bytes, cell.ranks, cell.streaming ? "streaming" : "isolated", seed);
}

template <class T>
void shuffle(std::vector<T>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
}

// Cells of one input: task, size and number of ranks. They are timed one soon after another, so that variants are compared in one state of the machine, and the input is made once.
using Batch = std::vector<Cell>;

// A misspelt name would leave its variant out of the study without a word.
void check_variants(const StudyOptions& options) {
  std::vector<std::string> known;
  for (const Task* task : options.tasks) {
    for (const auto& variant : task->multi_rank->variants) known.push_back(variant.name);
    for (const LibraryCall& call : library_calls(*task)) known.push_back(call.name);
  }
  for (const std::string& name : options.variants)
    if (std::ranges::find(known, name) == known.end()) throw unknown_name("variant", name, known, "of the tasks named there are " + fmt::format("{}", fmt::join(std::set(known.begin(), known.end()), ", ")));
}

std::vector<Batch> batches_of(const StudyOptions& options, int world) {
  check_variants(options);
  std::vector<Batch> batches;
  const std::vector<int> ranks = parse_ranks(options.ranks, world);
  for (const Task* task : options.tasks) {
    std::vector<std::pair<const MultiRank::RankVariant*, const LibraryCall*>> chosen;
    const auto wanted = [&](const std::string& name) { return options.variants.empty() || std::ranges::find(options.variants, name) != options.variants.end(); };
    for (const auto& variant : task->multi_rank->variants)
      if (wanted(variant.name)) chosen.emplace_back(&variant, nullptr);
    for (const LibraryCall& call : library_calls(*task))
      if (wanted(call.name)) chosen.emplace_back(nullptr, &call);
    if (chosen.empty()) throw Error(Error::Kind::bad_input, task->name + " has none of the variants asked for");
    for (std::int64_t bytes : options.sizes.empty() ? task->multi_rank->scaling->sizes : parse_sizes(options.sizes)) {
      for (int n : ranks) {
        Batch& batch = batches.emplace_back();
        for (const auto& [variant, library] : chosen)
          for (bool streaming : {false, true}) batch.push_back({task, variant, library, bytes, n, streaming});
      }
    }
  }
  return batches;
}

// Waits for all ranks of the world without taking a core from those that measure.
void wait_for_all() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return;
    const timespec pause{0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
}

void add_bandwidth(ScalingRow& row, const MultiRank::Scaling& scaling, const NodeMap& nodes, const CostModel& links) {
  row.bus_formula = scaling.bus_formula;
  if (row.ranks == 1 || !(row.seconds > 0)) return;
  row.algbw = static_cast<double>(row.bytes) / row.seconds;
  row.busbw = row.algbw * scaling.bus_factor(row.ranks);
  if (scaling.schedule) {
    const auto schedule = scaling.schedule(row.bytes, nodes);
    for (int rank = 0; rank < row.ranks; ++rank) {
      const Traffic traffic = traffic_of(*schedule, nodes, rank);
      row.wire_node = std::max(row.wire_node, static_cast<double>(traffic.bytes_sent[0]));
      row.wire_network = std::max(row.wire_network, static_cast<double>(traffic.bytes_sent[1]));
    }
  }
  if (scaling.bound) {
    row.bound_seconds = bound_seconds(scaling.bound(row.bytes, row.ranks), nodes, links);
    row.bound_ratio = row.bound_seconds > 0 ? row.seconds / row.bound_seconds : 0;
  }
}

std::string element_of(const TensorMap& whole) {
  std::int64_t most = -1;
  std::string name;
  for (const auto& [key, tensor] : whole) {
    if (tensor.bytes() <= most) continue;
    most = tensor.bytes();
    name = std::string(name_of(tensor.dtype()));
  }
  return name;
}

/// The whole input of the cells at hand: made when the first of them needs it.
class Input {
 public:
  const TensorMap& of(const Cell& cell, std::uint64_t seed) {
    if (!whole_) {
      Random random(cell.task->name, "scale", seed, static_cast<std::uint64_t>(cell.bytes));
      whole_.emplace(cell.task->multi_rank->scaling->inputs(random, cell.ranks, cell.bytes));
    }
    return *whole_;
  }

 private:
  std::optional<TensorMap> whole_;
};

ScalingRow run_visit(const Cell& cell, int visit, const StudyOptions& options, RankGroup& group, Input& input) {
  Communicator& communicator = *group.communicator;
  const MultiRank::Scaling& scaling = *cell.task->multi_rank->scaling;
  ScalingRow row;
  row.task = cell.task->name;
  row.variant = cell.name();
  row.cadence = cell.streaming ? "streaming" : "isolated";
  row.ranks = cell.ranks;
  row.bytes = cell.bytes;
  row.oversubscribed = group.oversubscribed;
  row.key = visit_key(key_of(cell, options.seed), visit);
  row.verdict = "skipped";
  const double share = options.budget_seconds / options.visits;
  MeasureOptions measure{.stop = {.cap_seconds = share}, .yields = group.oversubscribed, .check_first = visit == 0};
  measure.stop.min_seconds = std::min(measure.stop.min_seconds / options.visits, share / 2);
  measure.stop.min_samples = std::max<std::int64_t>(10, measure.stop.min_samples / options.visits);
  const auto time = [&](const Calls& calls) { (cell.streaming ? measure_streaming : measure_isolated)(communicator, group.clock, calls, measure, row); };
  if (cell.library) {
    if (cell.bytes / 4 > std::numeric_limits<int>::max()) {
      row.detail = "more elements than one call of the library takes";
      return row;
    }
    LibraryBuffers buffers(*cell.library, cell.bytes, group.raw());
    row.bytes = buffers.bytes();
    row.element = "f32";
    time({{}, [&] { buffers.run(); }, [&] { return buffers.check(); }});
    if (row.verdict == "passed") add_bandwidth(row, scaling, communicator.nodes(), group.links);
    return row;
  }
  Communicator* const transport = group.transport(*cell.variant, row.detail);
  if (!row.detail.empty()) return row;
  const TensorMap& whole = input.of(cell, options.seed);
  row.bytes = scaling.size_of(whole, cell.ranks);
  row.element = element_of(whole);
  Shard shard(communicator, transport, *cell.task, *cell.variant, cell.task->multi_rank->shard(whole, communicator.rank(), cell.ranks));
  if (!shard.refused().empty()) {
    row.detail = shard.refused();
    return row;
  }
  Calls calls;
  if (shard.in_place()) calls.prepare = [&] { shard.poison_outputs(); };
  calls.run = [&] { shard.call(); };
  calls.check = [&] { return shard.check(whole); };
  time(calls);
  double sent[2] = {static_cast<double>(shard.sent()[0]), static_cast<double>(shard.sent()[1])};
  communicator.all_reduce(sent, sent, 2, Dtype::f64, Reduce::max);
  row.sent_node = sent[0];
  row.sent_network = sent[1];
  if (row.verdict == "passed") add_bandwidth(row, scaling, communicator.nodes(), group.links);
  return row;
}

// The same share of the node's cores for a rank of every group, so that efficiencies compare ranks and not threads. OMP_NUM_THREADS has its way.
void set_threads(int cores) {
  if (std::getenv("OMP_NUM_THREADS")) return;
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int here = 1, most = 1;
  MPI_Comm_size(node, &here);
  MPI_Comm_free(&node);
  MPI_Allreduce(&here, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  omp_set_num_threads(std::max(1, cores / most));
}

// All visits of all cells, in an order of the seed's that every rank draws alike: all batches, then all once more in another order.
class Course {
 public:
  Course(const StudyOptions& options, MpiSession& session, Watchdog& watchdog, StudyFiles* files, std::vector<Batch> batches)
      : options_(options), session_(session), watchdog_(watchdog), files_(files), batches_(std::move(batches)) {
    int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    MPI_Allreduce(MPI_IN_PLACE, &cores, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    set_threads(cores);
    for (const Batch& batch : batches_) {
      cells_ += batch.size();
      const int ranks = batch[0].ranks;
      if (groups_.contains(ranks)) continue;
      watchdog_.enter("setting up ranks", watchdog_.deadlines().start_up, {}, fmt::format("a group of {}", ranks));
      groups_.emplace(ranks, std::make_unique<RankGroup>(ranks, session.rank(), cores));
    }
    if (!files_) return;
    for (const auto& [ranks, group] : groups_) files_->add_links(ranks, group->links, group->communicator->nodes(), group->clock_error);
    if (!options.quiet)
      fmt::print(stderr, "{} cells x {:g} s = at most {:.1f} minutes of timing, in {} visits each; inputs and checks come on top\n", cells_, options.budget_seconds, static_cast<double>(cells_) * options.budget_seconds / 60, options.visits);
  }

  // The signal that stopped it, on every rank; 0: it came to its end.
  int run() {
    Random random("scale", "order", options_.seed, 0);
    for (int visit = 0; visit < options_.visits; ++visit) {
      shuffle(batches_, random);
      for (Batch& batch : batches_) {
        shuffle(batch, random);
        Input input;
        for (const Cell& cell : batch) {
          ++turn_;
          if (const int signal = session_.largest(StopSignals::received()); signal != 0) {
            say_stopped(signal);
            return signal;
          }
          if (session_.from_first(files_ && files_->has(visit_key(key_of(cell, options_.seed), visit)) ? 1 : 0) != 0) continue;
          if (groups_.at(cell.ranks)->communicator) take(cell, visit, input);
          watchdog_.enter("waiting", 0);  // for those that measure, as long as they may
          wait_for_all();
        }
      }
    }
    return 0;
  }

 private:
  void say_stopped(int signal) const {
    if (!files_) return;
    fmt::print(stderr, "faibench: stopped by {}: {} of {} visits timed; go on with --resume {}\n", stop_signal_name(signal), turn_ - 1, cells_ * static_cast<std::size_t>(options_.visits), files_->name());
    std::fflush(stderr);
  }

  void take(const Cell& cell, int visit, Input& input) {
    const std::string label = fmt::format("{} {} {} on {} ranks", cell.task->name, cell.name(), size_text(cell.bytes), cell.ranks);
    watchdog_.enter("timing", watchdog_.deadlines().loop + 10 * options_.budget_seconds, {}, label);
    try {
      ScalingRow row = run_visit(cell, visit, options_, *groups_.at(cell.ranks), input);
      if (!files_) return;
      if (!options_.quiet)
        fmt::print(stderr, "[{}/{}] {} {}: {} {:.2f} us{}\n", turn_, cells_ * static_cast<std::size_t>(options_.visits), label, row.cadence, row.verdict, 1e6 * row.seconds, row.oversubscribed ? " (oversubscribed)" : "");
      files_->add(std::move(row));
    } catch (const std::exception& e) {
      MpiSession::abandon(fmt::format("{}: rank {}: {}; finished rows are kept, --resume goes on", label, session_.rank(), e.what()), 3);
    }
  }

  const StudyOptions& options_;
  MpiSession& session_;
  Watchdog& watchdog_;
  StudyFiles* files_;  // rank 0's
  std::vector<Batch> batches_;
  std::map<int, std::unique_ptr<RankGroup>> groups_;
  std::size_t cells_ = 0, turn_ = 0;
};

constexpr int exit_code_stuck = 4;

// Where all ranks leave their stamps: beside the journal, as those of a run.
std::string make_stamp_folder(const StudyFiles& files) {
  const std::filesystem::path folder = std::filesystem::absolute(stamp_folder(files.name()));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  std::filesystem::create_directories(folder, ignored);
  return folder.string();
}

int study_on(const StudyOptions& options, MpiSession& session) {
  const StopSignals signals;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  Watchdog watchdog(session.rank(), session.size(), host, hang_after_from_environment(), [](const std::string& line) { MpiSession::abandon(line, exit_code_stuck); });
  std::vector<Batch> batches;
  std::unique_ptr<StudyFiles> files;
  std::optional<Error> error;
  int word = 0;
  try {
    batches = batches_of(options, session.size());
    if (session.rank() == 0) files = std::make_unique<StudyFiles>(options);
  } catch (const Error& e) {
    error = e;
    word = exit_code_of(e);
  }
  word = session.conclude(word, error);
  if (word != 0) return word;
  session.set_exit_code(3);  // of a rank that gets no further
  const std::string stamps = session.text_from_first(files ? make_stamp_folder(*files) : "");
  watchdog.publish(stamps);
  const int stopped = Course(options, session, watchdog, files.get(), std::move(batches)).run();
  int code = stopped != 0 ? exit_code_of_signal(stopped) : 0;
  watchdog.enter("end", watchdog.deadlines().end);
  if (files) {
    std::error_code ignored;
    std::filesystem::remove_all(stamps, ignored);  // of a study that came to its end: nobody is left to look for
    try {
      const ScalingStudy& study = files->write();
      const bool wrong = std::ranges::any_of(study.rows, [](const ScalingRow& row) { return row.verdict == "wrong"; });  // also of a launch that this one went on from
      if (wrong && code == 0) code = 1;
      if (options.json) fmt::print("{}\n", to_json(study));
      else fmt::print("{}Results: {}\n", table_text(study), files->name());
    } catch (const Error& e) {
      error = e;
      code = exit_code_of(e);
    }
  }
  return session.conclude(code, error);
}

}  // namespace

int run_study(const StudyOptions& options) {
  MpiSession session;
  return study_on(options, session);
}

}  // namespace faibench::scale
