#include "launch/launcher_words.h"

#include <cstdlib>
#include <regex>

namespace faibench {

std::optional<Casualty> casualty_in(std::string_view line) {
  static const std::regex mpirun_signal(R"(process rank (\d+) with PID \d+ on node (\S+) exited on (signal \d+(?: \([^)]*\))?))");
  static const std::regex srun_task(R"(^srun: error: ([^:\s]+): tasks? (\d+)[^:]*: (Killed|Terminated|Aborted|Segmentation fault|Bus error|Exited with exit code \d+).*)");
  static const std::regex own_words("^faibench: stuck: rank (\\d+) on ([^ ,:;]+),? ([^;]*)");
  std::match_results<std::string_view::const_iterator> found;
  if (std::regex_search(line.begin(), line.end(), found, mpirun_signal)) return Casualty{std::atoi(found[1].str().c_str()), found[2].str(), "died of " + found[3].str()};
  if (std::regex_search(line.begin(), line.end(), found, own_words)) return Casualty{std::atoi(found[1].str().c_str()), found[2].str(), found[3].str()};
  if (std::regex_search(line.begin(), line.end(), found, srun_task)) return Casualty{std::atoi(found[2].str().c_str()), found[1].str(), "ended: " + found[3].str()};
  return std::nullopt;
}

std::string describe(const Casualty& casualty) {
  if (casualty.rank < 0) return casualty.how;
  return "rank " + std::to_string(casualty.rank) + (casualty.host.empty() ? "" : " on " + casualty.host) + " " + casualty.how;
}

}  // namespace faibench
