// What the writer and the reader of run files agree on. Private to this part.
#pragma once
#include <hdf5.h>

#include <string>
#include <utility>

#include "results/record_fields.h"

namespace faibench {

inline constexpr const char* run_format_name = "faibench-run/1";
inline constexpr const char* scaling_format_name = "faibench-scaling/1";

struct ScalingStudy;
/// Fills the group /scaling (scaling.cpp).
void write_scaling(hid_t scaling, const ScalingStudy& study);

/// A row of /records: a record without its samples, and where those lie ("" if there are none). `Row` is a pair, const or not.
inline constexpr auto visit_record_row = [](auto& row, auto&& f) {
  visit_record_fields(row.first, f);
  f(FieldFact{"samples", "", "path of the raw timings in this file; empty where nothing was timed"}, row.second);
};

}  // namespace faibench
