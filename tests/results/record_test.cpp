#include "results/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "results/record_fields.h"
#include "results/sample_record.h"
#include "tensor/error.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::expect_equal_records;
using testing_support::sample_record;

std::string error_of(const std::string& text) {
  try {
    record_from_json(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::bad_input);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "accepted";
}

TEST(Record, comes_back_from_json_bit_for_bit) {
  const Record record = sample_record("linalg_transpose", "cpu", 7);
  expect_equal_records(record_from_json(to_json(record)), record);
}

TEST(Record, keeps_the_smallest_and_largest_numbers) {
  Record record = sample_record("t", "cpu", 1);
  record.seed = std::numeric_limits<std::uint64_t>::max();
  record.cases = std::numeric_limits<std::int64_t>::min();
  record.seconds = std::numeric_limits<double>::denorm_min();
  record.baseline_seconds = std::numeric_limits<double>::max();
  record.speedup = -0.0;
  record.started = 0.1 + 0.2;
  const Record back = record_from_json(to_json(record));
  expect_equal_records(back, record);
  EXPECT_TRUE(std::signbit(back.speedup));
}

TEST(Record, is_one_line_whatever_its_texts_hold) {
  Record record = sample_record("t", "cpu", 1);
  record.stderr_tail = "first\nsecond\r\n\ttabs and \"quotes\" and \x01";
  record.detail = std::string("a\0b", 3);
  const std::string line = to_json(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  expect_equal_records(record_from_json(line), record);
}

TEST(Record, replaces_bytes_that_are_not_utf8) {
  Record record;
  record.stderr_tail = "bad \xff\xfe byte";
  EXPECT_EQ(record_from_json(to_json(record)).stderr_tail, "bad \xEF\xBF\xBD\xEF\xBF\xBD byte");
}

TEST(Record, writes_nan_and_infinity_as_null_and_reads_zero) {
  Record record;
  record.speedup = std::numeric_limits<double>::quiet_NaN();
  record.speedup_high = std::numeric_limits<double>::infinity();
  record.samples.push_back({.ratio = -std::numeric_limits<double>::infinity()});
  EXPECT_THAT(to_json(record), HasSubstr("\"speedup\":null"));
  const Record back = record_from_json(to_json(record));
  EXPECT_EQ(back.speedup, 0);
  EXPECT_EQ(back.speedup_high, 0);
  EXPECT_EQ(back.samples.at(0).ratio, 0);
}

TEST(Record, names_the_field_that_is_missing) {
  visit_record_fields(static_cast<const Record&>(Record{}), [](const FieldFact& field, const auto&) {
    auto json = nlohmann::json::parse(to_json(sample_record("t", "cpu", 2)));
    json.erase(std::string(field.name));
    EXPECT_EQ(error_of(json.dump()), field.later ? "accepted" : "field '" + std::string(field.name) + "' is missing");
  });
}

TEST(Record, of_the_first_days_has_the_defaults_of_what_came_later) {
  auto json = nlohmann::json::parse(to_json(sample_record("t", "cpu", 2)));
  int later = 0;
  visit_record_fields(static_cast<const Record&>(Record{}), [&](const FieldFact& field, const auto&) {
    if (field.later) later += static_cast<int>(json.erase(std::string(field.name)));
  });
  EXPECT_GT(later, 0);
  EXPECT_FALSE(record_from_json(json.dump()).emulated);
}

TEST(Record, names_the_field_of_another_type) {
  visit_record_fields(static_cast<const Record&>(Record{}), [](const FieldFact& field, const auto&) {
    auto json = nlohmann::json::parse(to_json(sample_record("t", "cpu", 2)));
    json[std::string(field.name)] = nlohmann::json::object();
    EXPECT_THAT(error_of(json.dump()), HasSubstr("field '" + std::string(field.name) + "' is object, must be"));
  });
}

TEST(Record, names_the_sample_at_fault) {
  auto json = nlohmann::json::parse(to_json(sample_record("t", "cpu", 3)));
  json["samples"][2]["block"] = 1.5;
  EXPECT_EQ(error_of(json.dump()), "samples[2]: field 'block' is number, must be an integer");
  json["samples"][1] = nullptr;
  EXPECT_EQ(error_of(json.dump()), "samples[1]: is null, must be an object");
}

TEST(Record, refuses_integers_that_do_not_fit) {
  auto json = nlohmann::json::parse(to_json(sample_record("t", "cpu", 0)));
  for (const char* value : {"2147483648", "-2147483649", "18446744073709551615"}) {
    json["rank"] = nlohmann::json::parse(value);
    EXPECT_EQ(error_of(json.dump()), "field 'rank' is out of range: " + std::string(value));
  }
  json["rank"] = -2147483648LL;
  EXPECT_EQ(error_of(json.dump()), "accepted");
  json["seed"] = -1;
  EXPECT_EQ(error_of(json.dump()), "field 'seed' is out of range: -1");
}

TEST(Record, ignores_fields_it_does_not_know) {
  auto json = nlohmann::json::parse(to_json(sample_record("t", "cpu", 1)));
  json["colour"] = "red";
  EXPECT_EQ(error_of(json.dump()), "accepted");
}

TEST(Record, refuses_what_is_no_object) {
  EXPECT_EQ(error_of(""), "not valid JSON at byte 1");
  EXPECT_EQ(error_of("{\"key\":"), "not valid JSON at byte 8");
  EXPECT_EQ(error_of("[]"), "is array, must be an object");
  EXPECT_THAT(error_of("{\"key\":1e999}"), HasSubstr("out of range"));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("not valid JSON"));
}

TEST(Verdict, has_one_name_each_that_reads_back) {
  for (int i = 0; i <= static_cast<int>(Verdict::lost); ++i) EXPECT_EQ(verdict_from_name(name_of(static_cast<Verdict>(i))), static_cast<Verdict>(i));
  EXPECT_THROW(verdict_from_name("fine"), Error);
}

}  // namespace
}  // namespace faibench
