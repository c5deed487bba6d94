// How a plan reads, as a table and as JSON. Pure.
#pragma once
#include <span>
#include <string>

#include "scale/forecast.h"

namespace faibench::scale {

/// A table for each task; `model` stands above it. Rows whose messages were not followed read "not checked".
std::string plan_text(std::span<const PlanRow> rows, const CostModel& model);
/// {"format": "faibench-plan/1", "cost": {...}, "rows": [...]}; what is not known is null.
std::string plan_json(std::span<const PlanRow> rows, const CostModel& model);

}  // namespace faibench::scale
