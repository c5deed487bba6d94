#include "scale/study_files.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cluster/run.h"
#include "results/provenance.h"
#include "results/run_file.h"
#include "scale/visits.h"
#include "tensor/error.h"

namespace faibench::scale {
namespace {

constexpr std::string_view journal_header = "{\"format\":\"faibench-scaling-journal/2\"}\n";
constexpr std::array verdicts = {"passed", "wrong", "skipped", "late"};

// Whatever would keep the result file from being written is found here, before anything is timed.
void check_place(const std::filesystem::path& file, const std::filesystem::path& journal, bool force) {
  if (file.extension() == ".jsonl") throw Error(Error::Kind::bad_input, file.string() + ": a result file is named *.h5; its journal takes *.jsonl");
  std::error_code error;
  for (const auto& path : {file, journal}) {
    if (std::filesystem::is_directory(path, error)) throw Error(Error::Kind::bad_input, path.string() + ": is a folder; name a file");
    if (!force && std::filesystem::exists(path, error)) throw Error(Error::Kind::bad_input, path.string() + " exists; --force overwrites it, --resume goes on with it");
  }
  if (!file.has_parent_path()) return;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) throw Error(Error::Kind::io, file.parent_path().string() + ": cannot make the folder of the result file: " + error.message());
}

}  // namespace

StudyFiles::StudyFiles(const StudyOptions& options) : options_(options) {
  file_ = !options.resume.empty() ? options.resume : !options.out.empty() ? options.out : "results/scale-" + std::to_string(getpid()) + ".h5";
  if (!options.resume.empty() && file_.extension() == ".jsonl") file_.replace_extension(".h5");
  const std::filesystem::path path = journal_path(file_);
  Disk& disk = Disk::real();
  if (!options.resume.empty()) {
    journal_ = disk.open(path, Disk::Open::append);
  } else {
    check_place(file_, path, options.force);
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

void StudyFiles::add(ScalingRow visit) {
  journal_->append(to_json(visit) + "\n");
  journal_->sync();
  study_.rows.push_back(std::move(visit));
}

void StudyFiles::add_links(int ranks, const CostModel& links, const NodeMap& nodes, double clock_error) {
  for (const int level : {0, 1}) {
    if (links.alpha[level] > 0) study_.links.push_back({ranks, level == 0 ? "node" : "network", nodes.nodes(), links.alpha[level], links.beta[level], clock_error});
  }
}

const ScalingStudy& StudyFiles::write() {
  study_.rows = cells_of_visits(study_.rows);
  add_efficiencies(study_.rows);
  add_fits(study_);
  study_.findings = findings_of(study_.rows);
  Provenance provenance = collect_local(options_.command_line);
  provenance.seed = options_.seed;
  MPI_Comm_size(MPI_COMM_WORLD, &provenance.world_size);
  write_run_file(file_, provenance, {}, &study_);
  return study_;
}

void StudyFiles::take_over(const std::filesystem::path& path, std::string_view text) {
  if (!text.starts_with(journal_header)) throw Error(Error::Kind::bad_input, path.string() + ":1: no journal of a scaling study");
  std::size_t at = journal_header.size();
  for (int line = 2;; ++line) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    try {
      ScalingRow row = scaling_row_from_json(text.substr(at, end - at));
      if (std::ranges::find(verdicts, row.verdict) == verdicts.end()) throw Error(Error::Kind::bad_input, "field 'verdict' is none that a visit has");
      if (keys_.insert(row.key).second) study_.rows.push_back(std::move(row));
    } catch (const Error& e) {
      throw e.at(path.string() + ":" + std::to_string(line));
    }
    at = end + 1;
  }
  journal_->truncate(static_cast<std::int64_t>(at));
}

}  // namespace faibench::scale
