// What a part of the gate comes to.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "judge/candidate.h"

namespace faibench {

/// What came of calls of the candidate, up to the first that failed.
struct Finding {
  std::optional<Failure> failure;
  std::string where;       ///< the call that failed: "workload standard, other fill 2 of 2"
  std::string note;        ///< for the record, whether it failed or not
  std::int64_t calls = 0;
};

}  // namespace faibench
