// Where a run's results go when nobody says where.
#pragma once
#include <string>

namespace faibench {

/// results/<kind>-<UTC>-<host>-<pid>.h5; `kind` is the subcommand.
std::string default_run_file(const std::string& kind);

}  // namespace faibench
