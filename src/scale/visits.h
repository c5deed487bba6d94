// A cell is come back to at other times of a study, with buffers of its own each time: what changes between visits is seen, and belongs to the interval. Pure.
#pragma once
#include <string>
#include <vector>

#include "results/scaling.h"

namespace faibench::scale {

/// The cell's key, and which visit, from 0.
std::string visit_key(const std::string& cell_key, int visit);
std::string cell_key(const std::string& visit_key);

/// Visits of equal cells as one row each, in the order of the first ones. Its median is the median of the visits' medians, its interval reaches from the lowest to the highest of theirs; percentiles are of all
/// samples together. A visit that was wrong makes the cell wrong; one that was late, or in which ranks lost their cores, is left out unless all were.
std::vector<ScalingRow> cells_of_visits(const std::vector<ScalingRow>& visits);

}  // namespace faibench::scale
