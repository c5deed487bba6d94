// Hostile catalogs: whatever the bytes, one clear line or a catalog. FAIBENCH_FUZZ_SECONDS sets how long (3).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "task/catalog.h"
#include "tensor/error.h"
#include "tensor/random.h"

namespace faibench {
namespace {

const char* const seed_text = R"({
 "schema": "fai_bench_task_catalog_v2", "task_count": 85, "by_bench": {"kfc": 55, "lh": 20},
 "tasks": [
  {"bench": "kfc", "task_dir": "a-b", "infra_name": "one", "group": "linalg", "summary": "text", "reward_class": "performance", "gpus": 1, "max_submissions": 1, "ref_speedup": 3.16},
  {"bench": "lh", "task_dir": "c", "infra_name": "two", "reward_class": "implementation", "gpus": 0, "ref_speedup": null, "more": [1, {"x": true}]}
 ]
})";

const char* const pieces[] = {"{", "}", "[", "]", ",", ":", "\"", "null", "true", "-1", "1e999", "NaN", "-0", "18446744073709551616", "\\u0000", "\\ud800", "\xff", "\xef\xbb\xbf",
                              "\n", "\r\n", "\t", "\x1b[31m", "\"infra_name\": 3,", "\"tasks\": [", "[[[[[[[[[[[[[[[[[[[[[[", "{\"a\":{\"a\":{\"a\":", "\"\"", "1.5", "0x10", "//"};

std::string mutated(Random& random) {
  std::string text = seed_text;
  const std::int64_t edits = random.between(1, 8);
  for (std::int64_t e = 0; e < edits && !text.empty(); ++e) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
    switch (random.below(6)) {
      case 0: text[at] = static_cast<char>(random.below(256)); break;
      case 1: text.erase(at, static_cast<std::size_t>(random.between(1, 40))); break;
      case 2: text.insert(at, pieces[random.below(std::size(pieces))]); break;
      case 3: text.insert(at, text.substr(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size()))), static_cast<std::size_t>(random.between(1, 200)))); break;
      case 4: text.resize(at); break;
      default: text.insert(at, std::string(static_cast<std::size_t>(random.between(1, 300)), "[{\"0 "[random.below(5)])); break;
    }
  }
  return text;
}

TEST(HostileCatalog, gives_one_clear_line_or_a_catalog) {
  const char* asked = std::getenv("FAIBENCH_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(asked ? std::atof(asked) : 3.0);
  std::int64_t refused = 0, taken = 0;
  for (std::uint64_t i = 0; std::chrono::steady_clock::now() < end; ++i) {
    Random random("catalog", "fuzz", 1, i);
    const std::string text = mutated(random);
    try {
      const Catalog catalog = parse_catalog(text, "fuzz");
      ++taken;
      for (const CatalogEntry& entry : catalog.entries) {
        ASSERT_FALSE(entry.name.empty()) << text;
        ASSERT_EQ(entry.ref_speedup > 1, entry.reward_class == RewardClass::performance) << text;
      }
    } catch (const Error& error) {
      ++refused;
      const std::string what = error.what();
      ASSERT_EQ(error.kind, Error::Kind::bad_input) << text;
      ASSERT_EQ(what.rfind("fuzz: line ", 0), 0u) << what << "\nof\n" << text;
      ASSERT_LT(what.size(), 1000u) << what;
      for (char c : what) ASSERT_TRUE(c >= ' ' && c < 127) << what << "\nof\n" << text;
    }
  }
  std::printf("%lld refused, %lld taken\n", static_cast<long long>(refused), static_cast<long long>(taken));
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace faibench
