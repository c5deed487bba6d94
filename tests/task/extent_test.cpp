#include "task/extent.h"

#include <gtest/gtest.h>

#include "tensor/error.h"

namespace faibench {
namespace {

Dims with(std::initializer_list<std::pair<const char*, std::int64_t>> values) {
  Dims dims;
  for (const auto& [letter, value] : values) dims.set(letter, value);
  return dims;
}

struct Written { const char* text; std::int64_t value; };
void PrintTo(const Written& w, std::ostream* os) { *os << w.text; }

class ExtentValue : public testing::TestWithParam<Written> {};
TEST_P(ExtentValue, is_what_the_text_says) {
  EXPECT_EQ(Extent(GetParam().text).value(with({{"N", 7}, {"K", 3}, {"V", 65}, {"zero", 0}})), GetParam().value);
}
INSTANTIATE_TEST_SUITE_P(extent, ExtentValue,
                         testing::Values(Written{"16", 16}, Written{"N", 7}, Written{"N+1", 8}, Written{"N - 1", 6}, Written{"N*K", 21}, Written{"N*K+1", 22},
                                         Written{"N*(K+1)", 28}, Written{"V/32", 2}, Written{"ceil(V/32)", 3}, Written{"ceil(N/K)", 3}, Written{"ceil((N-1)/K)", 2},
                                         Written{"N-K-1", 3}, Written{"N/zero", 0}));

TEST(Extent, has_no_value_while_a_letter_has_none) {
  EXPECT_EQ(Extent("N*Q").value(with({{"N", 7}})), std::nullopt);
  EXPECT_EQ(Extent("N+1").value(Dims()), std::nullopt);
}

TEST(Extent, overflow_is_a_size_that_no_tensor_has) {
  EXPECT_LT(Extent("N*N").value(with({{"N", std::int64_t{1} << 40}})).value(), 0);
}

TEST(Extent, a_letter_binds_once) {
  Dims dims;
  EXPECT_TRUE(Extent("N").bind(dims, 5));
  EXPECT_FALSE(Extent("N").bind(dims, 6));
  EXPECT_EQ(dims.at("N"), 5);
}

TEST(Extent, a_letter_plus_or_minus_a_number_binds_what_makes_it_fit) {
  Dims dims;
  EXPECT_TRUE(Extent("N+1").bind(dims, 5));
  EXPECT_TRUE(Extent("K-2").bind(dims, 5));
  EXPECT_EQ(dims.at("N"), 4);
  EXPECT_EQ(dims.at("K"), 7);
}

TEST(Extent, products_and_numbers_bind_nothing) {
  Dims dims;
  EXPECT_FALSE(Extent("N*K").bind(dims, 6));
  EXPECT_FALSE(Extent("16").bind(dims, 16));
  EXPECT_FALSE(Extent("ceil(N/32)").bind(dims, 1));
  EXPECT_EQ(dims.begin(), dims.end());
}

class NoExtent : public testing::TestWithParam<const char*> {};
TEST_P(NoExtent, is_refused) { EXPECT_THROW(Extent(std::string(GetParam())), Error); }
INSTANTIATE_TEST_SUITE_P(extent, NoExtent, testing::Values("", "N+", "+N", "(N", "N)", "N N", "2N", "ceil(N)", "N//2", "99999999999999999999"));

TEST(Dims, asking_for_a_letter_without_value_is_an_error_that_names_it) {
  try {
    (void)Dims().at("Q");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'Q'"), std::string::npos);
  }
}

}  // namespace
}  // namespace faibench
