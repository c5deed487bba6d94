// How a scoreboard words its numbers and texts; shared by the terminal and the page.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "results/record.h"

namespace faibench::wording {

/// "7.25x", "123x", "0.031x": three significant digits. "-" for zero and less.
std::string ratio(double value);
/// "7.13..7.50": the 95% interval of the speedup.
std::string interval(const Record& record);
/// "1.23 ms" with the unit that fits, "-" for zero and less.
std::string duration(double seconds);
/// "50%" of the time that the floor allows, "-" where either is unknown.
std::string floor_share(const Record& record);
/// "wrong (value)", "crashed (SIGSEGV)", "passed".
std::string verdict(const Record& record);
/// One line without control characters: what a candidate wrote must not steer the reader's terminal.
std::string printable(std::string_view text);
/// The last lines of a text, printable each, empty ones left out.
std::vector<std::string> last_lines(std::string_view text, std::size_t count);

/// "cuda", "cuda (emulated)".
std::string variant(const Record& record);
/// "3 variants for GPUs emulated on CPUs, neither timed nor scored: 2 passed, 1 did not".
std::string emulated_line(int emulated, int passed);
/// Whether the record counts in the sums: peers and emulated variants do not.
bool counts(const Record& record);
/// Whether it has a speedup that may be shown: passed, timed, scored by speed.
bool is_timed(const Record& record);
bool was_not_run(const Record& record);
/// The fastest peer that passed the same task, workload and ranks among `all`; null for a peer itself, for what is not timed, and where there is none.
const Record* peer_of(const std::vector<const Record*>& all, const Record& record);
/// By group, task, workload, ranks, variant.
std::vector<const Record*> in_order(const std::vector<Record>& records);

}  // namespace faibench::wording
