// The journal of a run (format "faibench-journal/1", results/FORMAT.md): every verdict on disk before anything else happens.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hdf5/disk.h"
#include "results/provenance.h"
#include "results/record.h"

namespace faibench {

/// What a run left behind, whichever file it was read from.
struct RunContents {
  Provenance provenance;
  std::vector<Record> records;
};

/// RUN.jsonl beside RUN.h5. One writer: the file is locked while a Journal lives. For one thread.
class Journal {
 public:
  /// Starts a journal with its header line. Throws Error(io) in one line if the file exists (unless `overwrite`), another run is writing it, or it cannot be written.
  static Journal create(const std::filesystem::path& path, const Provenance& provenance, bool overwrite, Disk& disk = Disk::real());
  /// Goes on with an existing one. A torn last line is cut off; a damaged line elsewhere is Error(bad_input) "<path>:<line>: reason".
  static Journal resume(const std::filesystem::path& path, Disk& disk = Disk::real());

  /// Returns when the verdict is on the device. Throws Error(io) with the file and the system's reason; the file is then as it was before and append may be tried again.
  /// A key that is there already is Error(internal).
  void append(const Record& record);
  /// A new header line: from now on and for readers, this is the provenance (peaks measured after the start, a resumed run's job).
  void update_provenance(const Provenance& provenance);

  /// In the order of the file, those found by resume() included. Where a file holds a key twice, the first stands.
  [[nodiscard]] const std::vector<Record>& records() const { return contents_.records; }
  /// Null if no record has the key.
  [[nodiscard]] const Record* find(std::string_view key) const;
  [[nodiscard]] const Provenance& provenance() const { return contents_.provenance; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Gives the file and its lock back. Throws Error(io) if the system reports a failure.
  void close();

 private:
  Journal(std::filesystem::path path, std::unique_ptr<DiskFile> file) : path_(std::move(path)), file_(std::move(file)) {}
  void write_line(const std::string& line);

  std::filesystem::path path_;
  std::unique_ptr<DiskFile> file_;
  std::int64_t length_ = 0;      ///< of the whole lines
  bool torn_ = false;            ///< a failed write could not be taken back: do so before the next one
  RunContents contents_;
  std::unordered_map<std::string, std::size_t> by_key_;
};

/// Reads a journal without locking or changing it (also while a run writes it): a torn last line is left out.
RunContents read_journal(const std::filesystem::path& path, Disk& disk = Disk::real());

/// RUN.jsonl for RUN.h5.
std::filesystem::path journal_path(const std::filesystem::path& run_file);

}  // namespace faibench
