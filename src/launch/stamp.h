// What each rank says of itself while it runs, in a small file beside the journal: for whoever must find the rank that hangs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace faibench {

/// One rank's state. Written by its watchdog every second or two, read by the supervisor and by other ranks' watchdogs.
struct Stamp {
  std::string job;               ///< the cookie of its launch (see sweep.h); empty without a supervisor
  int rank = 0;
  std::string host;
  int pid = 0;
  std::string phase;             ///< "start-up", "idle", "judging", "gang", "folding results", "end"; of a study: "timing", "waiting"
  std::string detail;            ///< within the phase: "block 7"
  std::string item;              ///< task/variant[@ranks] in hand; empty: none, or a cell of a study, which is in `detail`
  double deadline_seconds = 0;   ///< that the phase may last from its last step
  std::int64_t steps = 0;        ///< of the rank's main thread: stands still where that hangs
  std::int64_t beats = 0;        ///< of its watchdog thread: stands still where the process is stopped or its host gone
  double beat_seconds = 1;       ///< between two beats
};

/// "judging coalesced_matrix_transpose/cpu (block 7)"
std::string describe_phase(const Stamp& stamp);

/// One line of JSON, padded to a fixed length so that it can be overwritten in place, and back. Empty for text that is no stamp (torn, of another program).
std::string to_text(const Stamp& stamp);
std::optional<Stamp> stamp_from_text(std::string_view text);

/// The folder of a run's stamps: RUN.ranks beside RUN.h5. A run that ends as it should removes it.
std::filesystem::path stamp_folder(const std::filesystem::path& run_file);
/// The stamp of one rank in it.
std::filesystem::path stamp_path(const std::filesystem::path& folder, int rank);
/// One rank's; empty where it is not there or not whole.
std::optional<Stamp> read_stamp(const std::filesystem::path& folder, int rank);
/// All of that launch that are there and whole, by rank: what a broken run left behind is not among them. Never throws.
std::map<int, Stamp> read_stamps(const std::filesystem::path& folder, const std::string& job);

/// Longest time without a beat: a stopped process is told from a slow file system.
double silence_limit(const Stamp& stamp, double hang_after_seconds);
/// Seconds that a rank may show no progress within a phase: $FAIBENCH_HANG_AFTER, else 60. The deadlines of all phases are multiples of it.
double hang_after_from_environment();
inline constexpr const char* hang_after_variable = "FAIBENCH_HANG_AFTER";

}  // namespace faibench
