#include "launch/journal_state.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string_view>

namespace faibench {

JournalState journal_state(const std::filesystem::path& run_file) {
  const std::string path = std::filesystem::path(run_file).replace_extension(".jsonl").string();
  JournalState state;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return state;
  state.exists = true;
  state.inode = static_cast<std::int64_t>(status.st_ino);
  state.bytes = static_cast<std::int64_t>(status.st_size);
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = text.str();
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    ++state.lines;
    if (!rest.starts_with("{\"format\":")) ++state.records;
    rest.remove_prefix(end + 1);
  }
  return state;
}

}  // namespace faibench
