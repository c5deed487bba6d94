#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace faibench {
namespace {

TEST(Dtype, has_a_name_that_reads_back) {
  std::set<std::string> names;
  for (int d = 0; d < dtype_count; ++d) {
    const Dtype dtype = static_cast<Dtype>(d);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    names.emplace(name_of(dtype));
  }
  EXPECT_EQ(names, (std::set<std::string>{"f16", "bf16", "f32", "f64", "i8", "u8", "i16", "i32", "u32", "i64", "u64", "bool"}));
  for (const char* unknown : {"", "f8", "F32", "f32 ", "u16", "float"}) EXPECT_FALSE(parse_dtype(unknown)) << unknown;
}

TEST(Dtype, is_as_large_as_its_storage_type) {
  for (int d = 0; d < dtype_count; ++d) {
    const Dtype dtype = static_cast<Dtype>(d);
    visit_dtype(dtype, [&]<class T>(T) {
      EXPECT_EQ(size_of(dtype), static_cast<std::int64_t>(sizeof(T))) << name_of(dtype);
      EXPECT_EQ(dtype_of<T>, dtype);
    });
  }
}

TEST(Dtype, knows_which_are_floats) {
  for (int d = 0; d < dtype_count; ++d) {
    const std::string name(name_of(static_cast<Dtype>(d)));
    EXPECT_EQ(is_float(static_cast<Dtype>(d)), name.find('f') != std::string::npos) << name;
  }
}

}  // namespace
}  // namespace faibench
