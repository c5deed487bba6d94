#include "launch/launcher_words.h"

#include <cstdlib>
#include <regex>

namespace faibench {
namespace {

constexpr std::string_view failed_start = "the launcher did not come up on every host";

}  // namespace

std::optional<Casualty> casualty_in(std::string_view line) {
  static const std::regex mpirun_signal(R"(process rank (\d+) with PID \d+ on node (\S+) exited on (signal \d+(?: \([^)]*\))?))");
  static const std::regex srun_task(R"(^srun: error: ([^:\s]+): tasks? (\d+)[^:]*: (Killed|Terminated|Aborted|Segmentation fault|Bus error|Exited with exit code \d+).*)");
  static const std::regex own_words("^faibench: stuck: rank (\\d+) on ([^ ,:;]+),? ([^;]*)");
  static const std::regex lost_daemon(R"(^\s*Remote daemon *: \[\[\d+,\d+\],\d+\] on node (\S+))");
  static const std::regex lost_node(R"(^srun: error: Node failure on ([^,;\s\[]+))");
  std::match_results<std::string_view::const_iterator> found;
  if (std::regex_search(line.begin(), line.end(), found, mpirun_signal)) return Casualty{std::atoi(found[1].str().c_str()), found[2].str(), "died of " + found[3].str()};
  if (std::regex_search(line.begin(), line.end(), found, own_words)) return Casualty{std::atoi(found[1].str().c_str()), found[2].str(), found[3].str()};
  if (std::regex_search(line.begin(), line.end(), found, srun_task)) return Casualty{std::atoi(found[2].str().c_str()), found[1].str(), "ended: " + found[3].str()};
  if (std::regex_search(line.begin(), line.end(), found, lost_daemon) || std::regex_search(line.begin(), line.end(), found, lost_node))
    return Casualty{-1, found[1].str(), "host " + found[1].str() + " is lost: its launch daemon died or cannot be reached"};
  if (line.find("unable to reliably start one or more daemons") != std::string_view::npos) return Casualty{-1, "", std::string(failed_start)};
  return std::nullopt;
}

bool is_failed_start(const Casualty& casualty) { return casualty.how == failed_start; }

bool is_lost_host(const Casualty& casualty) { return casualty.rank < 0 && !casualty.host.empty(); }

bool is_same_host(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const std::string_view short_one = one.substr(0, one.find('.')), short_other = other.substr(0, other.find('.'));
  return short_one == short_other && (short_one == one || short_other == other);
}

std::string describe(const Casualty& casualty) {
  if (casualty.rank < 0) return casualty.how;
  return "rank " + std::to_string(casualty.rank) + (casualty.host.empty() ? "" : " on " + casualty.host) + " " + casualty.how;
}

}  // namespace faibench
