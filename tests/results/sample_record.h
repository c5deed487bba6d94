// Made-up records for tests, every field set, and their comparison field by field.
#pragma once
#include <gtest/gtest.h>

#include <bit>

#include <string>

#include "results/record.h"
#include "results/record_fields.h"

namespace faibench::testing_support {

inline Record sample_record(const std::string& task, const std::string& variant, int blocks) {
  Record r;
  r.key = "k-" + task + "-" + variant;
  r.task = task;
  r.group = "linalg";
  r.variant = variant;
  r.workload = "standard";
  r.asked_variant = "cuda";
  r.emulated = true;
  r.ranks = 2;
  r.seed = 12345678901234567890u;
  r.verdict = Verdict::passed;
  r.reason = "none";
  r.detail = "größer als 1 µs";
  r.stderr_tail = "line one\nline two";
  r.performance = true;
  r.score = 1.0 / 3.0;
  r.ref_speedup = 2.5;
  r.speedup = 7.25;
  r.speedup_low = 7.125;
  r.speedup_high = 7.5;
  r.baseline_seconds = 0.7;
  r.seconds = 0.1;
  r.baseline_objective = 10;
  r.objective = 11;
  r.floor_bytes = 1e9;
  r.floor_operations = 2e9;
  r.floor_seconds = 0.05;
  r.bound = "memory";
  r.cases = 42;
  r.blocks = blocks;
  r.stop_reason = "precision";
  r.flags = {"outliers:3", "context_switches:2"};
  r.note = "a note";
  r.host = "node1";
  r.rank = 3;
  r.gpu = "GPU-00000001-0000-0000-0000-000000000001";
  r.gpu_clock_hz = 1.98e9;
  r.gpu_power_watts = 512.5;
  r.gpu_throttle = "power cap";
  r.threads = 2;
  r.cpus = "0-1";
  r.started = 1.7e9 + 0.125;
  r.wall_seconds = 3.25;
  for (int i = 0; i < blocks; ++i)
    r.samples.push_back({i - 1, i % 2, 4, 0.7 + 0.001 * i, 0.1 + 0.0001 * i, 7.0 + 0.01 * i, i % 3 == 0, static_cast<std::uint32_t>(i % 8)});
  return r;
}

inline void expect_equal_records(const Record& got, const Record& wanted) {
  const auto listed = [](const auto& record) {
    std::vector<std::pair<std::string, std::string>> fields;
    visit_record_fields(record, [&]<class T>(const FieldFact& field, const T& value) {
      if constexpr (std::is_same_v<T, Verdict>) fields.emplace_back(field.name, name_of(value));
      else if constexpr (std::is_same_v<T, std::string>) fields.emplace_back(field.name, value);
      else if constexpr (std::is_same_v<T, std::vector<std::string>>) fields.emplace_back(field.name, testing::PrintToString(value));
      else if constexpr (std::is_floating_point_v<T>) fields.emplace_back(field.name, testing::PrintToString(std::bit_cast<std::uint64_t>(value)));
      else fields.emplace_back(field.name, std::to_string(value));
    });
    return fields;
  };
  EXPECT_EQ(listed(got), listed(wanted));
  ASSERT_EQ(got.samples.size(), wanted.samples.size());
  for (std::size_t i = 0; i < got.samples.size(); ++i) {
    const Sample &a = got.samples[i], &b = wanted.samples[i];
    EXPECT_TRUE(a.block == b.block && a.rank == b.rank && a.calls == b.calls && a.baseline_seconds == b.baseline_seconds && a.seconds == b.seconds && a.ratio == b.ratio &&
                a.baseline_first == b.baseline_first && a.flags == b.flags)
        << "sample " << i;
  }
}

}  // namespace faibench::testing_support
