#include "task/contract.h"

#include <gmock/gmock.h>

#include <cmath>

#include "task/fake_task.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::fake_contract;
using testing_support::fake_inputs;

Rejection rejection_of(const TensorMap& inputs) {
  const Rejected rejected = fake_contract().validate(refs(inputs));
  return rejected ? *rejected : Rejection{"", "", -1, "valid"};
}

void replace(TensorMap& inputs, const char* name, Tensor tensor) { inputs.at(name) = std::move(tensor); }

TEST(Contract, takes_valid_inputs_and_binds_every_letter) {
  const TensorMap inputs = fake_inputs();
  Dims dims;
  EXPECT_FALSE(fake_contract().check_general(refs(inputs), dims));
  EXPECT_EQ(dims.at("N"), 5);
  EXPECT_EQ(dims.at("G"), 2);
}

TEST(Contract, a_missing_tensor_is_named) {
  TensorMap inputs = fake_inputs();
  inputs.erase("offsets");
  const Rejection r = rejection_of(inputs);
  EXPECT_EQ(r.code, "missing_tensor");
  EXPECT_EQ(r.tensor, "offsets");
  EXPECT_THAT(r.message, HasSubstr("offsets"));
}

TEST(Contract, an_optional_tensor_may_be_absent_and_is_checked_when_present) {
  TensorMap inputs = fake_inputs();
  EXPECT_EQ(rejection_of(inputs).code, "");
  inputs.add("bonus", Tensor::of<float>({2}, {1, 2}));
  EXPECT_EQ(rejection_of(inputs).code, "");
  replace(inputs, "bonus", Tensor(Dtype::f32, {3}));
  EXPECT_EQ(rejection_of(inputs).code, "dim_mismatch");
  replace(inputs, "bonus", Tensor(Dtype::f64, {2}));
  EXPECT_EQ(rejection_of(inputs).code, "wrong_dtype");
}

TEST(Contract, an_unknown_tensor_is_named) {
  TensorMap inputs = fake_inputs();
  inputs.add("valeus", Tensor(Dtype::f32, {1}));
  EXPECT_EQ(rejection_of(inputs).code, "unknown_tensor");
  EXPECT_EQ(rejection_of(inputs).tensor, "valeus");
}

TEST(Contract, an_output_given_as_input_is_unknown) {
  TensorMap inputs = fake_inputs();
  inputs.add("kept", Tensor(Dtype::f32, {5}));
  EXPECT_EQ(rejection_of(inputs).code, "unknown_tensor");
}

TEST(Contract, a_wrong_dtype_says_which_are_allowed) {
  TensorMap inputs = fake_inputs();
  replace(inputs, "values", Tensor(Dtype::f64, {5}));
  EXPECT_EQ(rejection_of(inputs).code, "wrong_dtype");
  EXPECT_EQ(rejection_of(inputs).message, "values is f64: it must be f32");
}

TEST(Contract, a_wrong_rank_says_the_shape) {
  TensorMap inputs = fake_inputs();
  replace(inputs, "threshold", Tensor(Dtype::f32, {1}));
  EXPECT_EQ(rejection_of(inputs).code, "wrong_rank");
  EXPECT_EQ(rejection_of(inputs).message, "threshold is [1]: it must be []");
}

TEST(Contract, a_letter_bound_twice_is_a_mismatch_of_the_later_tensor) {
  TensorMap inputs = fake_inputs();
  replace(inputs, "totals", Tensor(Dtype::i64, {3}));
  EXPECT_EQ(rejection_of(inputs).code, "dim_mismatch");
  EXPECT_EQ(rejection_of(inputs).tensor, "totals");
}

TEST(Contract, an_empty_list_of_offsets_is_a_mismatch_of_its_own) {
  TensorMap inputs = fake_inputs();
  replace(inputs, "offsets", Tensor(Dtype::i64, {0}));
  EXPECT_EQ(rejection_of(inputs).code, "dim_mismatch");
  EXPECT_EQ(rejection_of(inputs).message, "offsets is [0]: dimension 0 (G+1) must be 3 as totals is [2]");
}

TEST(Contract, a_mismatch_says_what_the_dimension_must_be) {
  TensorMap inputs = fake_inputs();
  replace(inputs, "totals", Tensor(Dtype::i64, {3}));
  EXPECT_EQ(rejection_of(inputs).message, "totals is [3]: dimension 0 (G) must be 2 as in the tensors before it");
  Contract contract;
  contract.input("pairs", {Dtype::i32}, {"N", "2"}, "of a fixed length");
  TensorMap triples;
  triples.add("pairs", Tensor(Dtype::i32, {4, 3}));
  EXPECT_EQ(contract.validate(refs(triples))->message, "pairs is [4, 3]: dimension 1 must be 2");
}

TEST(Contract, general_codes_come_in_their_order) {
  TensorMap inputs = fake_inputs();  // every fault at once, taken away one after another
  inputs.erase("threshold");
  inputs.add("extra", Tensor(Dtype::f32, {1}));
  replace(inputs, "totals", Tensor(Dtype::f32, {3, 1}));
  replace(inputs, "offsets", Tensor::of<std::int64_t>({3}, {1, 2, 5}));
  EXPECT_EQ(rejection_of(inputs).code, "missing_tensor");
  inputs.add("threshold", Tensor::scalar(-1.0f));
  EXPECT_EQ(rejection_of(inputs).code, "unknown_tensor");
  inputs.erase("extra");
  EXPECT_EQ(rejection_of(inputs).code, "wrong_dtype");
  replace(inputs, "totals", Tensor(Dtype::i64, {3, 1}));
  EXPECT_EQ(rejection_of(inputs).code, "wrong_rank");
  replace(inputs, "totals", Tensor(Dtype::i64, {3}));
  EXPECT_EQ(rejection_of(inputs).code, "dim_mismatch");
  replace(inputs, "totals", Tensor(Dtype::i64, {2}));
  EXPECT_EQ(rejection_of(inputs).code, "bad_offsets");
  replace(inputs, "offsets", Tensor::of<std::int64_t>({3}, {0, 2, 5}));
  EXPECT_EQ(rejection_of(inputs).code, "negative_threshold");
  replace(inputs, "threshold", Tensor::scalar(0.0f));
  EXPECT_EQ(rejection_of(inputs).code, "");
}

struct Offsets { const char* name; std::vector<std::int64_t> values; std::int64_t index; };
void PrintTo(const Offsets& o, std::ostream* os) { *os << o.name; }
class BadOffsets : public testing::TestWithParam<Offsets> {};
TEST_P(BadOffsets, are_rejected_at_the_first_bad_index) {
  TensorMap inputs = fake_inputs();
  replace(inputs, "offsets", Tensor::of<std::int64_t>({3}, GetParam().values));
  EXPECT_EQ(rejection_of(inputs).code, "bad_offsets");
  EXPECT_EQ(rejection_of(inputs).index, GetParam().index);
}
INSTANTIATE_TEST_SUITE_P(contract, BadOffsets,
                         testing::Values(Offsets{"not_zero_first", {1, 2, 5}, 0}, Offsets{"falling", {0, 6, 5}, 2}, Offsets{"short_of_the_end", {0, 2, 4}, 2},
                                         Offsets{"past_the_end", {0, 2, 6}, 2}, Offsets{"negative", {0, -1, 5}, 1}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Contract, rules_of_the_runner_and_of_the_variant_are_told_apart) {
  TensorMap inputs = fake_inputs();
  inputs.at("values").flat<float>()[3] = NAN;
  EXPECT_FALSE(fake_contract().check_rules(refs(inputs), CheckedBy::runner));
  const Rejected by_variant = fake_contract().check_rules(refs(inputs), CheckedBy::variant);
  ASSERT_TRUE(by_variant);
  EXPECT_EQ(by_variant->code, "nan_value");
  EXPECT_EQ(by_variant->index, 3);
  EXPECT_EQ(rejection_of(inputs).code, "nan_value");
}

TEST(Contract, a_conditional_output_exists_when_its_condition_holds) {
  TensorMap inputs = fake_inputs();
  const auto names = [&] {
    Dims dims;
    EXPECT_FALSE(fake_contract().check_general(refs(inputs), dims));
    std::vector<std::string> names;
    for (const auto& output : fake_contract().output_shapes(refs(inputs), dims)) names.push_back(output.name + to_string(output.shape) + std::string(name_of(output.dtype)));
    return names;
  };
  EXPECT_THAT(names(), testing::ElementsAre("kept[5]f32"));
  inputs.add("bonus", Tensor::of<float>({2}, {1, 2}));
  EXPECT_THAT(names(), testing::ElementsAre("kept[5]f32", "used[2]f32"));
}

TEST(Contract, an_extent_may_be_an_integer_scalar_of_the_input) {
  Contract contract;
  contract.input("top_k", {Dtype::i32}, {}, "how many");
  contract.input("x", {Dtype::f16, Dtype::bf16}, {"N"}, "values");
  contract.output_like("best", "x", {"N", "top_k"}, "the best ones");
  TensorMap inputs;
  inputs.add("top_k", Tensor::scalar(std::int32_t{3}));
  inputs.add("x", Tensor(Dtype::bf16, {4}));
  Dims dims;
  ASSERT_FALSE(contract.check_general(refs(inputs), dims));
  const auto shapes = contract.output_shapes(refs(inputs), dims);
  EXPECT_EQ(shapes.at(0).shape, (Shape{4, 3}));
  EXPECT_EQ(shapes.at(0).dtype, Dtype::bf16);
  inputs.at("top_k") = Tensor::scalar(std::int32_t{-3});
  EXPECT_EQ(contract.output_shapes(refs(inputs), dims).at(0).shape, (Shape{4, 0}));
}

TEST(Contract, a_tensor_like_another_must_have_its_dtype) {
  Contract contract;
  contract.input("a", {Dtype::f32, Dtype::f16}, {"N"}, "");
  contract.input_like("b", "a", {"N"}, "");
  TensorMap inputs;
  inputs.add("a", Tensor(Dtype::f16, {2}));
  inputs.add("b", Tensor(Dtype::f32, {2}));
  const Rejected rejected = contract.validate(refs(inputs));
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->message, "b is f32: it must be f16 like a");
}

}  // namespace
}  // namespace faibench
