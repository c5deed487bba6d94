// What mpirun, srun and the ranks themselves say on stderr about a rank that died or hangs, or a lost host.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace faibench {

struct Casualty {
  int rank = -1;             ///< -1: not told
  std::string host, how;     ///< "died of signal 9 (Killed)"
};

/// The casualty that a line tells of, if any.
std::optional<Casualty> casualty_in(std::string_view line);
/// Whether it is a host with all its ranks: `rank` is -1 then, `host` as the launcher calls it.
bool is_lost_host(const Casualty& casualty);
/// Whether no rank was started, as a host could not be had: neither `rank` nor `host` is known.
bool is_failed_start(const Casualty& casualty);
/// Whether two names, with or without a domain, are one host's.
bool is_same_host(std::string_view one, std::string_view other);
/// "rank 1 on node7 died of signal 9 (Killed)"
std::string describe(const Casualty& casualty);

/// How a rank's watchdog begins the line by which it gives up; see casualty_in().
inline constexpr std::string_view stuck_words = "stuck: ";

}  // namespace faibench
