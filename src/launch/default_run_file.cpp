#include "launch/default_run_file.h"

#include <unistd.h>

#include <array>
#include <ctime>

namespace faibench {

std::string default_run_file(const std::string& kind) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> utc{};
  std::strftime(utc.data(), utc.size(), "%Y%m%dT%H%M%SZ", &parts);
  return "results/" + kind + "-" + utc.data() + "-" + host.data() + "-" + std::to_string(getpid()) + ".h5";
}

}  // namespace faibench
