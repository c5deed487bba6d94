#include "task/catalog.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tensor/error.h"

namespace faibench {
namespace {

std::string catalog_of(const std::string& entries, const std::string& count = "85") {
  return "{\n \"schema\": \"fai_bench_task_catalog_v2\",\n \"task_count\": " + count + ",\n \"by_bench\": {\"kfc\": 55},\n \"tasks\": [\n" + entries + "\n ]\n}\n";
}
std::string entry(const std::string& name, const std::string& rest = R"("reward_class": "performance", "ref_speedup": 2.5)") {
  return R"(  {"bench": "kfc", "task_dir": "dir", "infra_name": ")" + name + "\", " + rest + "}";
}
std::string error_of(const std::string& text) {
  try {
    (void)parse_catalog(text, "C.json");
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::bad_input);
    return error.what();
  }
}

TEST(Catalog, the_embedded_one_has_every_known_entry) {
  const Catalog& catalog = embedded_catalog();
  EXPECT_EQ(catalog.task_count, 85);
  EXPECT_EQ(catalog.entries.size(), 51u);
  EXPECT_EQ(catalog.by_bench.at("kfc"), 55);
  for (const CatalogEntry& e : catalog.entries) {
    EXPECT_FALSE(e.group.empty()) << e.name;
    EXPECT_FALSE(e.summary.empty()) << e.name;
    EXPECT_LE(e.summary.size(), 90u) << e.name;
    EXPECT_EQ(e.ref_speedup > 1, e.reward_class == RewardClass::performance) << e.name;
  }
  const CatalogEntry* transpose = catalog.find("coalesced_matrix_transpose");
  ASSERT_NE(transpose, nullptr);
  EXPECT_EQ(transpose->ref_speedup, 3.16);
  EXPECT_EQ(transpose->group, "linalg");
  EXPECT_EQ(catalog.find("no_such_task"), nullptr);
}

TEST(Catalog, unknown_fields_are_ignored_whatever_they_hold) {
  const Catalog catalog = parse_catalog(
      catalog_of(entry("a", R"("reward_class": "performance", "ref_speedup": 2, "new": {"deep": [1, {"infra_name": 3}]}, "later": null)")) , "C.json");
  ASSERT_EQ(catalog.entries.size(), 1u);
  EXPECT_EQ(catalog.entries[0].ref_speedup, 2);
  EXPECT_EQ(catalog.entries[0].gpus, 0);
  EXPECT_EQ(catalog.entries[0].max_submissions, 1);
}

TEST(Catalog, the_anchor_of_an_implementation_task_may_be_null_or_absent) {
  const Catalog catalog = parse_catalog(catalog_of(entry("a", R"("reward_class": "implementation", "ref_speedup": null)") + ",\n" + entry("b", R"("reward_class": "implementation")")), "C.json");
  EXPECT_EQ(catalog.entries[0].ref_speedup, 0);
  EXPECT_EQ(catalog.entries[1].ref_speedup, 0);
}

struct Wrong { const char* name; std::string text; std::string message; };
void PrintTo(const Wrong& w, std::ostream* os) { *os << w.name; }
class WrongCatalog : public testing::TestWithParam<Wrong> {};
TEST_P(WrongCatalog, is_refused_with_line_field_and_reason) { EXPECT_EQ(error_of(GetParam().text), GetParam().message); }

const std::string performance = R"("reward_class": "performance", )";
const Wrong wrong_catalogs[] = {
    {"a_list", "[]", "C.json: line 1: a catalog is an object, not a list"},
    {"a_number", "12", "C.json: line 1: a catalog is an object, not 12"},
    {"another_schema", "{\n\"schema\": \"v1\"}", "C.json: line 2: schema: must be 'fai_bench_task_catalog_v2', not 'v1'"},
    {"no_schema", "{\n\"task_count\": 1, \"tasks\": []}", "C.json: line 1: schema: is missing"},
    {"no_tasks", "{\"schema\": \"fai_bench_task_catalog_v2\", \"task_count\": 1}", "C.json: line 1: tasks: is missing"},
    {"negative_count", catalog_of("", "-1"), "C.json: line 3: task_count: must be an integer from 0 to 1000000, not -1"},
    {"count_at_a_lines_end", "{\n\"task_count\": -1\n}", "C.json: line 2: task_count: must be an integer from 0 to 1000000, not -1"},
    {"absurd_count", catalog_of("", "99999999999999999999"), "C.json: line 3: task_count: must be an integer from 0 to 1000000, not 99999999999999999999"},
    {"fractional_count", catalog_of("", "1.5"), "C.json: line 3: task_count: must be an integer from 0 to 1000000, not 1.5"},
    {"fewer_than_listed", catalog_of(entry("a") + ",\n" + entry("b"), "1"), "C.json: line 3: task_count: 1, yet 2 tasks are listed"},
    {"tasks_an_object", "{\n\"tasks\": {}}", "C.json: line 2: tasks: must be a list of tasks, not an object"},
    {"tasks_a_text", "{\n\"tasks\": \"x\"}", "C.json: line 2: tasks: must be a list of tasks, not 'x'"},
    {"task_a_number", catalog_of(entry("a") + ",\n7"), "C.json: line 7: tasks[1]: a task is an object, not 7"},
    {"task_a_list", catalog_of("[]"), "C.json: line 6: tasks[0]: a task is an object, not a list"},
    {"name_missing", catalog_of(entry("a") + ",\n  {\"bench\": \"kfc\",\n   \"task_dir\": \"d\"}"), "C.json: line 7: tasks[1].infra_name: is missing"},
    {"name_a_number", catalog_of("{\"infra_name\": 3}"), "C.json: line 6: tasks[0].infra_name: must be a name of letters, digits, '_', '-' and '.', not 3"},
    {"name_a_path", catalog_of(entry("../a")), "C.json: line 6: tasks[0].infra_name: must be a name of letters, digits, '_', '-' and '.', not '../a'"},
    {"name_twice", catalog_of(entry("a") + ",\n" + entry("a")), "C.json: line 7: tasks[1].infra_name: 'a' is listed twice"},
    {"field_twice", catalog_of("{\"bench\": \"kfc\",\n\"bench\": \"lh\"}"), "C.json: line 7: tasks[0].bench: is given twice"},
    {"class_unknown", catalog_of(entry("a", R"("reward_class": "speed")")), "C.json: line 6: tasks[0].reward_class: must be 'performance' or 'implementation', not 'speed'"},
    {"negative_gpus", catalog_of(entry("a", performance + "\n\"gpus\": -1")), "C.json: line 7: tasks[0].gpus: must be an integer from 0 to 1024, not -1"},
    {"gpus_a_text", catalog_of(entry("a", performance + "\"gpus\": \"1\"")), "C.json: line 6: tasks[0].gpus: must be an integer from 0 to 1024, not '1'"},
    {"anchor_missing", catalog_of(entry("a", R"("reward_class": "performance")")), "C.json: line 6: tasks[0].ref_speedup: is missing"},
    {"anchor_null", catalog_of(entry("a", performance + "\"ref_speedup\": null")),
     "C.json: line 6: tasks[0].ref_speedup: must be a number above 1 in a performance task, not null"},
    {"anchor_one", catalog_of(entry("a", performance + "\"ref_speedup\": 1")), "C.json: line 6: tasks[0].ref_speedup: must be null or a number above 1, at most 1e12, not 1"},
    {"anchor_absurd", catalog_of(entry("a", performance + "\"ref_speedup\": 1e300")), "C.json: line 6: tasks[0].ref_speedup: must be null or a number above 1, at most 1e12, not 1e300"},
    {"summary_with_escapes", catalog_of(entry("a", performance + "\"summary\": \"\\u001b[31m\"")), "C.json: line 6: tasks[0].summary: must be one line of at most 400 bytes, not '?[31m'"},
    {"by_bench_a_list", "{\n\n\"by_bench\": []}", "C.json: line 3: by_bench: must be an object of counts, not a list"},
    {"by_bench_negative", "{\"by_bench\": {\"kfc\":\n-5\n}}", "C.json: line 2: by_bench.kfc: must be an integer from 0 to 1000000, not -5"},
};
INSTANTIATE_TEST_SUITE_P(catalog, WrongCatalog, testing::ValuesIn(wrong_catalogs), [](const auto& i) { return std::string(i.param.name); });

struct Broken { const char* name; std::string text; std::string start; };
void PrintTo(const Broken& b, std::ostream* os) { *os << b.name; }
class BrokenJson : public testing::TestWithParam<Broken> {};
TEST_P(BrokenJson, is_refused_at_its_line) { EXPECT_THAT(error_of(GetParam().text), testing::StartsWith("C.json: line " + GetParam().start)); }
const Broken broken_texts[] = {
    {"empty", "", "1: column 1: not valid JSON"},
    {"truncated", "{\n\"schema\": \"fai", "2: column 15: not valid JSON"},
    {"nan", catalog_of(entry("a", performance + "\"ref_speedup\": NaN")), "6: "},
    {"infinite", catalog_of(entry("a", performance + "\"ref_speedup\": 1e999")), "6: not valid JSON: number overflow"},
    {"trailing_text", catalog_of("") + "x", "9: column 1: not valid JSON: syntax error while parsing value - invalid literal; expected end of input"},
    {"not_utf8", "{\n\n\"a\xff\": 1}", "3: column 3: not valid JSON"},
    {"control_character", std::string("{\"a\": \"\x01\"}"), "1: column 8: not valid JSON"},
    {"nested_without_end", std::string(1000000, '['), "1: a catalog is an object, not a list"},
    {"nested_in_an_unknown_field", "{\n\"x\": " + std::string(1000000, '['), "2: x: nested deeper than 64 levels"},
};
INSTANTIATE_TEST_SUITE_P(catalog, BrokenJson, testing::ValuesIn(broken_texts), [](const auto& i) { return std::string(i.param.name); });

TEST(ReadCatalog, a_file_that_is_not_there_or_a_folder_is_an_io_error_with_its_name) {
  for (const char* path : {"/no/such/catalog.json", "/tmp"}) {
    try {
      (void)read_catalog(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, Error::Kind::io);
      EXPECT_THAT(error.what(), testing::StartsWith(path));
    }
  }
}

TEST(ReadCatalog, reads_what_a_file_holds) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("faibench_catalog_test_" + std::to_string(::getpid()) + ".json");
  std::ofstream(path) << catalog_of(entry("only"));
  EXPECT_EQ(read_catalog(path).entries.at(0).name, "only");
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_THROW((void)read_catalog(path), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace faibench
