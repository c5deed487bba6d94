#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cluster/topology.h"
#include "tensor/error.h"

namespace faibench {
namespace {

// Ours alone: a real folder, owned by this user, closed to others. Whoever else made the path first has only made us look elsewhere.
bool is_ours(const std::string& path) {
  struct stat facts{};
  if (lstat(path.c_str(), &facts) != 0) return false;
  return S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && (facts.st_mode & 0077) == 0;
}

}  // namespace

std::string make_slot_folder() {
  // In an order that depends on the user alone: two runs on one host must meet, whatever their environments say.
  const std::string user = std::to_string(geteuid());
  std::string reasons;
  for (const std::string& path : {"/tmp/faibench-" + user, "/dev/shm/faibench-" + user, "/run/user/" + user + "/faibench"}) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      reasons += "; " + path + ": " + std::strerror(errno);
      continue;
    }
    if (is_ours(path)) return path;
    reasons += "; " + path + ": exists and is not this user's own (mode 0700)";
  }
  throw Error(Error::Kind::io, "no folder for timing-slot locks can be made" + reasons);
}

}  // namespace faibench
