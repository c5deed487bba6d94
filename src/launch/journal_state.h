// How far a job's journal is, by its lines alone: the supervisor needs no format for that.
#pragma once
#include <cstdint>
#include <filesystem>

namespace faibench {

struct JournalState {
  bool exists = false;
  std::int64_t lines = 0;    ///< whole ones
  std::int64_t records = 0;  ///< of them, those that are no header
  std::int64_t inode = 0, bytes = 0;
  friend bool operator==(const JournalState&, const JournalState&) = default;
};

/// Of RUN.jsonl beside RUN.h5. Never throws.
JournalState journal_state(const std::filesystem::path& run_file);

}  // namespace faibench
