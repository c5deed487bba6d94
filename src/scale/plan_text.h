// How a plan reads, as a table and as JSON. Pure.
#pragma once
#include <span>
#include <string>

#include "scale/forecast.h"

namespace faibench::scale {

/// A table for each task below the prices of messages; then how well these met the times they were fitted to, and those of `held_out`. What a figure leaves out is said.
std::string plan_text(std::span<const PlanRow> rows, const Calibration& prices, std::span<const PlanRow> held_out = {});
/// {"format": "faibench-plan/2", "cost": {...}, "calibration": {...}, "held_out": [...], "rows": [...]}; what is not known is null.
std::string plan_json(std::span<const PlanRow> rows, const Calibration& prices, std::span<const PlanRow> held_out = {});

}  // namespace faibench::scale
