#include "cli/selection.h"

#include <gmock/gmock.h>

#include "tensor/error.h"

namespace faibench {
namespace {

std::vector<std::string> chosen(const TaskFilter& filter) {
  std::vector<std::string> names;
  for (const CatalogEntry* entry : select(embedded_catalog(), filter)) names.push_back(entry->name);
  return names;
}
std::string error_of(const TaskFilter& filter) {
  try {
    (void)chosen(filter);
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, Error::Kind::bad_input);
    return error.what();
  }
}

TEST(Select, without_a_filter_takes_all) { EXPECT_EQ(chosen({}).size(), 51u); }

TEST(Select, globs_add_up_and_exclusions_take_away) {
  EXPECT_THAT(chosen({{"moe_*", "lora_adapter_apply"}, {"*_pad"}, {}}), testing::ElementsAre("lora_adapter_apply", "moe_routing_map_fuse"));
}

TEST(Select, a_group_narrows) {
  EXPECT_EQ(chosen({{}, {}, {"network"}}).size(), 3u);
  EXPECT_THAT(chosen({{"coalesced_matrix_transpose"}, {}, {"network"}}), testing::IsEmpty());
  EXPECT_EQ(chosen({{}, {}, {"network", "metrics"}}).size(), 6u);
}

TEST(Select, what_matches_nothing_is_an_error_with_the_nearest) {
  EXPECT_THAT(error_of({{"loar_adapter_apply"}, {}, {}}), testing::HasSubstr("did you mean lora_adapter_apply?"));
  EXPECT_THAT(error_of({{}, {"loar_*"}, {}}), testing::HasSubstr("unknown task 'loar_*'"));
  EXPECT_THAT(error_of({{}, {}, {"lineal"}}), testing::HasSubstr("unknown group 'lineal': did you mean linalg?"));
}

TEST(CheckVariant, knows_every_variant_of_the_build_and_what_a_gpu_would_run) {
  for (const char* name : {"reference", "baseline", "cpu", "cuda", "peer:*", "library:./x.so"}) EXPECT_NO_THROW(check_variant(name)) << name;
  EXPECT_THROW(check_variant("cpuu"), Error);
  EXPECT_THROW(check_variant("library:"), Error);
}

TEST(CheckWorkload, knows_every_workload_of_the_build) {
  EXPECT_NO_THROW(check_workload("smoke"));
  EXPECT_NO_THROW(check_workload("standard"));
  EXPECT_THROW(check_workload("standart"), Error);
}

}  // namespace
}  // namespace faibench
