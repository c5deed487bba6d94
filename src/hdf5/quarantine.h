// Reading files that may be damaged or hostile without trusting the library that reads them.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace faibench::hdf5 {

struct QuarantineLimits {
  double seconds = 20;
  std::int64_t memory_bytes = std::int64_t{1} << 30;  ///< on top of what this process has
};

/// Calls `read` in a child process and returns the bytes it returned; an Error it throws comes through. A crash, an endless loop or a runaway allocation
/// in there becomes Error(bad_input): libhdf5 1.10 has all three for some damaged files (CVE-2018-11205, CVE-2020-10812, CVE-2021-45829, CVE-2021-46244, ...).
/// A child that somebody kills is replaced, twice; then it
/// is Error(io). The child is a fork: `read` sees this process's memory as it is now and may not use threads. No other thread may be inside HDF5 meanwhile.
std::string in_quarantine(const std::function<std::string()>& read, QuarantineLimits limits = {});

}  // namespace faibench::hdf5
