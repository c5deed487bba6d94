#include "scale/study.h"

#include <fmt/format.h>
#include <mpi.h>
#include <omp.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <map>
#include <set>

#include "cluster/deadline.h"
#include "cluster/gang_member.h"
#include "cluster/launch.h"
#include "cluster/run.h"
#include "communicator/mpi_communicator.h"
#include "hdf5/disk.h"
#include "results/provenance.h"
#include "results/run_file.h"
#include "scale/library_calls.h"
#include "scale/measure.h"
#include "scale/sizes.h"
#include "schedule/traffic.h"
#include "tensor/random.h"

namespace faibench::scale {
namespace {

constexpr std::string_view journal_header = "{\"format\":\"faibench-scaling-journal/1\"}\n";
constexpr std::byte poison{0xa5};

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

// All cells in a random order that every rank draws alike.
std::vector<Cell> cells_of(const StudyOptions& options, int world) {
  std::vector<Cell> cells;
  const std::vector<int> ranks = parse_ranks(options.ranks, world);
  for (const Task* task : options.tasks) {
    std::size_t chosen = 0;
    const std::vector<std::int64_t> sizes = options.sizes.empty() ? task->multi_rank->scaling->sizes : parse_sizes(options.sizes);
    const auto add = [&](const std::string& name, const MultiRank::RankVariant* variant, const LibraryCall* library) {
      if (!options.variants.empty() && std::find(options.variants.begin(), options.variants.end(), name) == options.variants.end()) return;
      ++chosen;
      for (std::int64_t bytes : sizes)
        for (int n : ranks)
          for (bool streaming : {false, true}) cells.push_back({task, variant, library, bytes, n, streaming});
    };
    for (const auto& variant : task->multi_rank->variants) add(variant.name, &variant, nullptr);
    if (task->multi_rank->scaling->bus_formula == "2(P-1)/P") {
      for (const LibraryCall& call : all_reduce_calls()) add(call.name, nullptr, &call);
    }
    if (chosen == 0) throw Error(Error::Kind::bad_input, task->name + " has none of the variants asked for");
  }
  Random random("scale", "order", options.seed, 0);
  for (std::size_t i = cells.size(); i > 1; --i) std::swap(cells[i - 1], cells[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  return cells;
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

// This rank's shard with room for its outputs, in memory shared by the node where the variant wants that.
class Shard {
 public:
  Shard(Communicator& communicator, const Task& task, const MultiRank::RankVariant& variant, TensorMap inputs)
      : communicator_(communicator), form_(*task.multi_rank), variant_(variant), member_(communicator, nullptr, task), inputs_(std::move(inputs)), outputs_(allocate_outputs(form_.contract, refs(inputs_))) {
    input_refs_ = refs(inputs_);
    output_refs_ = refs(outputs_);
    for (const auto& [name, tensor] : outputs_) in_place_ = in_place_ || inputs_.find(name) != nullptr;
    if (!variant.registered) return;
    for (auto* side : {&input_refs_, &output_refs_}) {
      for (auto& [name, ref] : *side) {
        windows_.push_back(communicator.share(std::max<std::int64_t>(ref.bytes(), 1)));
        if (!windows_.back()) {
          refused_ = communicator.why_not_shared();
          return;
        }
        std::byte* place = windows_.back()->own();
        std::memcpy(place, ref.data, static_cast<std::size_t>(ref.bytes()));
        ref.data = place;
      }
    }
  }

  [[nodiscard]] const std::string& refused() const { return refused_; }
  [[nodiscard]] bool in_place() const { return in_place_; }

  void poison_outputs() {
    for (auto& [name, ref] : output_refs_) {
      if (const Tensor* input = inputs_.find(name)) std::memcpy(ref.data, input->data(), static_cast<std::size_t>(ref.bytes()));
      else std::memset(ref.data, static_cast<int>(poison), static_cast<std::size_t>(ref.bytes()));
    }
  }
  void call() {
    MultiRank::Call call{communicator_, {input_refs_, output_refs_, {}}};
    rejected_ = variant_.run(call);
    lengths_ = call.arguments.lengths;
  }
  // Poisoned outputs, one call, the task's gate over all ranks; the same word on every rank.
  std::optional<std::string> check(const TensorMap& whole) {
    poison_outputs();
    own_barrier(communicator_);
    call();
    GangMember::Call made;
    made.rejected = rejected_;
    if (!rejected_) {
      Dims dims;
      (void)form_.contract.check_general(refs(inputs_), dims);
      for (const auto& form : form_.contract.output_shapes(refs(inputs_), dims)) {
        TensorRef ref = output_refs_.at(form.name);
        if (!form.length.empty()) {
          if (const auto length = lengths_.find(form.length)) ref.shape[0] = std::clamp<std::int64_t>(*length, 0, ref.shape[0]);
        }
        made.outputs.add(form.name, Tensor::copy_of(ref));
      }
    }
    return member_.judge(whole, made);
  }

 private:
  Communicator& communicator_;
  const MultiRank& form_;
  const MultiRank::RankVariant& variant_;
  GangMember member_;
  TensorMap inputs_, outputs_;
  TensorRefMap input_refs_, output_refs_;
  std::vector<std::unique_ptr<SharedMemory>> windows_;
  std::string refused_;
  bool in_place_ = false;
  Rejected rejected_;
  Dims lengths_;
};

// alpha and beta of one message between rank 0 and the first rank at each level, by ping-pong of 8 B and 1 MiB: of the fastest, as a bound wants.
CostModel measure_links(Communicator& communicator) {
  CostModel model;
  const NodeMap& nodes = communicator.nodes();
  for (int level = 0; level < 2; ++level) {
    int peer = 1;
    while (peer < communicator.size() && nodes.same_node(0, peer) != (level == 0)) ++peer;
    if (peer == communicator.size()) continue;
    double one_way[2] = {0, 0};
    const std::int64_t sizes[2] = {8, 1 << 20};
    std::vector<char> buffer(1 << 20);
    for (int k = 0; k < 2; ++k) {
      std::vector<double> times;
      for (int i = 0; i < 60; ++i) {
        const double start = own_clock();
        if (communicator.rank() == 0) {
          communicator.send(buffer.data(), sizes[k], Dtype::u8, peer);
          communicator.receive(buffer.data(), sizes[k], Dtype::u8, peer);
        } else if (communicator.rank() == peer) {
          communicator.receive(buffer.data(), sizes[k], Dtype::u8, 0);
          communicator.send(buffer.data(), sizes[k], Dtype::u8, 0);
        }
        times.push_back((own_clock() - start) / 2);
      }
      one_way[k] = *std::min_element(times.begin(), times.end());
      communicator.broadcast(&one_way[k], 1, Dtype::f64, 0);
    }
    model.alpha[level] = one_way[0];
    model.beta[level] = std::max(0.0, one_way[1] - one_way[0]) / static_cast<double>(sizes[1]);
  }
  return model;
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

ScalingRow run_cell(const Cell& cell, const StudyOptions& options, Communicator& communicator, MPI_Comm raw, const GlobalClock& clock, const CostModel& links, bool oversubscribed) {
  const MultiRank::Scaling& scaling = *cell.task->multi_rank->scaling;
  ScalingRow row;
  row.task = cell.task->name;
  row.variant = cell.name();
  row.cadence = cell.streaming ? "streaming" : "isolated";
  row.ranks = cell.ranks;
  row.bytes = cell.bytes;
  row.oversubscribed = oversubscribed;
  row.key = key_of(cell, options.seed);
  row.verdict = "skipped";
  const MeasureOptions measure{.stop = {.cap_seconds = options.budget_seconds}, .yields = oversubscribed};
  if (cell.library) {
    if (cell.bytes / 4 > std::numeric_limits<int>::max()) {
      row.detail = "more elements than one call of the library takes";
      return row;
    }
    LibraryBuffers buffers(*cell.library, cell.bytes, raw);
    row.bytes = buffers.bytes();
    const Calls calls{{}, [&] { buffers.run(); }, [&] { return buffers.check(); }};
    (cell.streaming ? measure_streaming : measure_isolated)(communicator, clock, calls, measure, row);
    if (row.verdict == "passed") add_bandwidth(row, scaling, communicator.nodes(), links);
    return row;
  }
  if (cell.variant->on_nccl) {
    row.detail = "no GPU for every rank";
    return row;
  }
  Random random(cell.task->name, "scale", options.seed, static_cast<std::uint64_t>(cell.bytes));
  const TensorMap whole = scaling.inputs(random, cell.ranks, cell.bytes);
  row.bytes = scaling.size_of(whole, cell.ranks);
  Shard shard(communicator, *cell.task, *cell.variant, cell.task->multi_rank->shard(whole, communicator.rank(), cell.ranks));
  if (!shard.refused().empty()) {
    row.detail = shard.refused();
    return row;
  }
  Calls calls;
  if (shard.in_place()) calls.prepare = [&] { shard.poison_outputs(); };
  calls.run = [&] { shard.call(); };
  calls.check = [&] { return shard.check(whole); };
  (cell.streaming ? measure_streaming : measure_isolated)(communicator, clock, calls, measure, row);
  if (row.verdict == "passed") add_bandwidth(row, scaling, communicator.nodes(), links);
  return row;
}

// Rank 0's files: a journal line a row, and the run file at the end.
class Files {
 public:
  explicit Files(const StudyOptions& options) : options_(options) {
    file_ = !options.resume.empty() ? options.resume : !options.out.empty() ? options.out : "results/scale-" + std::to_string(getpid()) + ".h5";
    const std::filesystem::path path = journal_path(file_);
    Disk& disk = Disk::real();
    if (!options.resume.empty()) {
      journal_ = disk.open(path, Disk::Open::append);
    } else {
      if (!options.force && (std::filesystem::exists(file_) || std::filesystem::exists(path))) throw Error(Error::Kind::bad_input, file_.string() + " exists; --force overwrites it, --resume goes on with it");
      if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path());
      journal_ = disk.open(path, Disk::Open::append_or_create);
    }
    // Before a byte is read or cut off: the torn last line of a journal in use is one being written.
    if (!journal_->try_lock()) throw Error(Error::Kind::io, path.string() + ": another run is writing it");
    if (!options.resume.empty()) {
      take_over(path, journal_->read_all());
    } else {
      journal_->truncate(0);
      journal_->append(journal_header);
    }
  }
  [[nodiscard]] bool has(const std::string& key) const { return keys_.contains(key); }
  void add(ScalingRow row) {
    journal_->append(to_json(row) + "\n");
    journal_->sync();
    study.rows.push_back(std::move(row));
  }
  void add_links(int ranks, const CostModel& links, const NodeMap& nodes, double clock_error) {
    for (const int level : {0, 1}) {
      if (links.alpha[level] > 0) study.links.push_back({ranks, level == 0 ? "node" : "network", nodes.nodes(), links.alpha[level], links.beta[level], clock_error});
    }
  }
  void write() {
    add_efficiencies(study.rows);
    study.fits = fits_of(study.rows);
    study.findings = findings_of(study.rows);
    Provenance provenance = collect_local(options_.command_line);
    provenance.seed = options_.seed;
    MPI_Comm_size(MPI_COMM_WORLD, &provenance.world_size);
    write_run_file(file_, provenance, {}, &study);
  }
  [[nodiscard]] std::string name() const { return file_.string(); }
  ScalingStudy study;

 private:
  void take_over(const std::filesystem::path& path, std::string_view text) {
    if (!text.starts_with(journal_header)) throw Error(Error::Kind::bad_input, path.string() + ":1: no journal of a scaling study");
    std::size_t at = journal_header.size();
    for (int line = 2;; ++line) {
      const std::size_t end = text.find('\n', at);
      if (end == std::string_view::npos) break;
      try {
        study.rows.push_back(scaling_row_from_json(text.substr(at, end - at)));
      } catch (const Error& e) {
        throw e.at(path.string() + ":" + std::to_string(line));
      }
      keys_.insert(study.rows.back().key);
      at = end + 1;
    }
    journal_->truncate(static_cast<std::int64_t>(at));
  }

  const StudyOptions& options_;
  std::filesystem::path file_;
  std::unique_ptr<DiskFile> journal_;
  std::set<std::string> keys_;
};

// The first `n` ranks as a group; null on the others.
class Group {
 public:
  Group(int n, int rank, int cores) {
    MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &raw_);
    if (raw_ == MPI_COMM_NULL) return;
    communicator = mpi_communicator(raw_, mpi_options_from_environment());
    clock = synchronise(*communicator, 1.0);
    links = measure_links(*communicator);
    double own_error = clock.error;
    communicator->all_reduce(&own_error, &clock_error, 1, Dtype::f64, Reduce::max);
    const NodeMap& nodes = communicator->nodes();
    for (int node = 0; node < nodes.nodes(); ++node) oversubscribed = oversubscribed || static_cast<int>(nodes.members(node).size()) > cores;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    communicator.reset();
    if (raw_ != MPI_COMM_NULL) MPI_Comm_free(&raw_);
  }
  [[nodiscard]] MPI_Comm raw() const { return raw_; }
  std::unique_ptr<Communicator> communicator;
  GlobalClock clock;
  CostModel links;
  double clock_error = 0;  // the largest of its ranks'
  bool oversubscribed = false;

 private:
  MPI_Comm raw_ = MPI_COMM_NULL;
};

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

int study_on(const StudyOptions& options, MpiSession& session) {
  std::vector<Cell> cells;
  std::unique_ptr<Files> files;
  std::optional<Error> error;
  int word = 0;
  try {
    cells = cells_of(options, session.size());
    if (session.rank() == 0) files = std::make_unique<Files>(options);
  } catch (const Error& e) {
    error = e;
    word = exit_code_of(e);
  }
  word = session.from_first(word);
  session.set_exit_code(word);
  if (word != 0) {
    if (session.rank() == 0) throw Error(*error);
    return word;
  }
  int wrong = 0;
  {
    int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    MPI_Allreduce(MPI_IN_PLACE, &cores, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    set_threads(cores);
    std::map<int, std::unique_ptr<Group>> groups;
    for (const Cell& cell : cells) {
      if (!groups.contains(cell.ranks)) groups.emplace(cell.ranks, std::make_unique<Group>(cell.ranks, session.rank(), cores));
    }
    for (const auto& [ranks, group] : groups) {
      if (files) files->add_links(ranks, group->links, group->communicator->nodes(), group->clock_error);
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      const std::string label = fmt::format("{} {} {} on {} ranks", cell.task->name, cell.name(), size_text(cell.bytes), cell.ranks);
      if (session.from_first(files && files->has(key_of(cell, options.seed)) ? 1 : 0) != 0) continue;
      const Group& group = *groups.at(cell.ranks);
      if (group.communicator) {
        const double limit = 60 + 10 * options.budget_seconds;
        const Deadline deadline(limit + (session.rank() == 0 ? 0 : 3), [&] {
          MpiSession::abandon(fmt::format("{}: not done after {:.0f} s (seen by rank {}); finished rows are kept, --resume goes on", label, limit, session.rank()), 3);
        });
        try {
          ScalingRow row = run_cell(cell, options, *group.communicator, group.raw(), group.clock, group.links, group.oversubscribed);
          if (files) {
            wrong += row.verdict == "wrong" ? 1 : 0;
            if (!options.quiet) fmt::print(stderr, "[{}/{}] {} {}: {} {:.2f} us{}\n", i + 1, cells.size(), label, row.cadence, row.verdict, 1e6 * row.seconds, row.oversubscribed ? " (oversubscribed)" : "");
            files->add(std::move(row));
          }
        } catch (const std::exception& e) {
          MpiSession::abandon(fmt::format("{}: rank {}: {}", label, session.rank(), e.what()), 3);
        }
      }
      wait_for_all();
    }
  }
  int code = wrong > 0 ? 1 : 0;
  if (files) {
    try {
      files->write();
      if (options.json) fmt::print("{}\n", to_json(files->study));
      else fmt::print("{}Results: {}\n", table_text(files->study), files->name());
    } catch (const Error& e) {
      error = e;
      code = exit_code_of(e);
    }
  }
  code = session.from_first(code);
  session.set_exit_code(code);
  if (error) throw Error(*error);
  return code;
}

}  // namespace

int run_study(const StudyOptions& options) {
  MpiSession session;
  return study_on(options, session);
}

}  // namespace faibench::scale
