// The same scoreboard as one self-contained HTML page.
#pragma once
#include <string>
#include <vector>

#include "results/provenance.h"
#include "results/record.h"

namespace faibench {

/// Valid HTML5, no scripts, nothing loaded from elsewhere: table, speedups with intervals on a log axis as inline SVG, failures, provenance.
std::string html_report(const std::vector<Record>& records, const Provenance& provenance);

}  // namespace faibench
