// What a study leaves on disk: a journal line a visit, and the run file at the end. Rank 0's.
#pragma once
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "communicator/node_map.h"
#include "hdf5/disk.h"
#include "results/scaling.h"
#include "scale/study.h"
#include "schedule/cost.h"

namespace faibench::scale {

class StudyFiles {
 public:
  /// Opens the journal, or takes over the one of `options.resume`. Throws Error(bad_input) for an output that exists or a journal of something else, Error(io) for one in use.
  explicit StudyFiles(const StudyOptions& options);
  [[nodiscard]] bool has(const std::string& visit) const { return keys_.contains(visit); }
  /// On disk when it returns.
  void add(ScalingRow visit);
  void add_links(int ranks, const CostModel& links, const NodeMap& nodes, double clock_error);
  /// The visits as cells, what follows from them, and the file.
  const ScalingStudy& write();
  [[nodiscard]] std::string name() const { return file_.string(); }

 private:
  void take_over(const std::filesystem::path& path, std::string_view text);

  const StudyOptions& options_;
  std::filesystem::path file_;
  std::unique_ptr<DiskFile> journal_;
  std::set<std::string> keys_;
  ScalingStudy study_;  // its rows are visits until write()
};

}  // namespace faibench::scale
