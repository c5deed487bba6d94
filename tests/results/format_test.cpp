// results/FORMAT.md says what the code writes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "results/provenance_fields.h"
#include "results/record_fields.h"

namespace faibench {
namespace {

std::string documentation() {
  std::ostringstream text;
  text << std::ifstream(std::string(std::getenv("FAIBENCH_SOURCE")) + "/results/FORMAT.md").rdbuf();
  return text.str();
}

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  else if constexpr (std::is_same_v<T, double>) return "f64";
  else if constexpr (std::is_same_v<T, int>) return "i32";
  else if constexpr (std::is_same_v<T, std::uint32_t>) return "u32";
  else if constexpr (std::is_same_v<T, std::int64_t>) return "i64";
  else if constexpr (std::is_same_v<T, std::uint64_t>) return "u64";
  else return "text";
}

TEST(Format, documents_every_column) {
  const std::string text = documentation();
  const auto expect_row = [&]<class T>(const FieldFact& f, const T&) {
    const std::string row = "| `" + std::string(f.name) + "` | " + type_name<T>() + " | " + std::string(f.unit) + " | " + std::string(f.description) + " |";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  };
  const Record record;
  const Sample sample;
  const HostFacts host;
  const RankFacts rank;
  const Provenance provenance;
  visit_record_fields(record, expect_row);
  visit_sample_fields(sample, expect_row);
  visit_host_fields(host, expect_row);
  visit_rank_fields(rank, expect_row);
  visit_provenance_fields(provenance, [&](const FieldFact& f, const auto&) {
    const std::string row = "| `" + std::string(f.name) + "` | " + std::string(f.description) + " |";
    EXPECT_NE(text.find(row), std::string::npos) << row;
  });
}

}  // namespace
}  // namespace faibench
