#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "tensor/case_file.h"

namespace faibench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::faibench;
using testing_support::is_one_complaint;
using testing_support::Outcome;
using testing_support::Scratch;

/// A 2 x 3 transpose; `corner` is the last element of its answer.
std::string transpose_case(const Scratch& scratch, const std::string& name, float corner = 6) {
  CaseFile file;
  file.task = "coalesced_matrix_transpose";
  file.name = name;
  file.inputs.add("x", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  file.outputs.add("y", Tensor::of<float>({3, 2}, {1, 4, 2, 5, 3, corner}));
  write_case_file(scratch.file(name + ".h5"), file);
  return scratch.file(name + ".h5");
}
std::string rejected_case(const Scratch& scratch, const std::string& name, const std::string& code) {
  CaseFile file;
  file.task = "coalesced_matrix_transpose";
  file.name = name;
  file.expect_error = code;
  file.inputs.add("x", Tensor(Dtype::f64, {2, 3}));
  write_case_file(scratch.file(name + ".h5"), file);
  return scratch.file(name + ".h5");
}

TEST(Check, prints_a_line_a_case_and_variant) {
  const Scratch scratch;
  const Outcome outcome = faibench({"check", transpose_case(scratch, "small"), rejected_case(scratch, "double", "wrong_dtype")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "holds  coalesced_matrix_transpose  small  reference\n"
            "holds  coalesced_matrix_transpose  small  baseline\n"
            "holds  coalesced_matrix_transpose  small  cpu\n"
            "holds  coalesced_matrix_transpose  double  reference  (rejected: wrong_dtype)\n"
            "holds  coalesced_matrix_transpose  double  baseline  (rejected: wrong_dtype)\n"
            "holds  coalesced_matrix_transpose  double  cpu  (rejected: wrong_dtype)\n"
            "6 held, 0 failed\n");
}

TEST(Check, names_the_element_that_differs) {
  const Scratch scratch;
  const Outcome outcome = faibench({"check", transpose_case(scratch, "changed", 7), "--variant", "cpu"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("FAILS  coalesced_matrix_transpose  changed  cpu  wrong"));
  EXPECT_THAT(outcome.out, HasSubstr("y[2, 1]: got 6, wanted 7"));
  EXPECT_THAT(outcome.out, HasSubstr("0 held, 1 failed"));
}

TEST(Check, names_the_code_that_came_instead) {
  const Scratch scratch;
  const Outcome outcome = faibench({"check", rejected_case(scratch, "double", "wrong_rank"), "--variant", "cpu"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("wrong_dtype"));
  EXPECT_THAT(outcome.out, HasSubstr("wanted wrong_rank"));
}

TEST(Check, json_holds_the_same) {
  const Scratch scratch;
  const Outcome outcome = faibench({"check", transpose_case(scratch, "right"), transpose_case(scratch, "changed", 7), "--variant", "baseline", "--json"});
  EXPECT_EQ(outcome.code, 1);
  const json answer = json::parse(outcome.out);
  EXPECT_EQ(answer["held"], 1);
  EXPECT_EQ(answer["failed"], 1);
  EXPECT_EQ(answer["lines"][1]["verdict"], "wrong");
  EXPECT_THAT(answer["lines"][1]["detail"].get<std::string>(), HasSubstr("y[2, 1]"));
}

TEST(Check, quiet_prints_only_what_fails) {
  const Scratch scratch;
  EXPECT_EQ(faibench({"check", transpose_case(scratch, "small"), "--quiet"}).out, "3 held, 0 failed\n");
}

TEST(Check, a_damaged_file_is_one_line_and_the_others_are_still_checked) {
  const Scratch scratch;
  const std::string damaged = scratch.write("damaged.h5", "no HDF5 at all");
  const Outcome outcome = faibench({"check", damaged, transpose_case(scratch, "small"), "--variant", "cpu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_complaint(outcome.err));
  EXPECT_THAT(outcome.err, HasSubstr(damaged));
  EXPECT_THAT(outcome.out, HasSubstr("1 held, 0 failed, 1 of 2 files not checked"));
}

// Factors without elements, a product without end: of 2^64 bytes, which 64 bits hold as 0, and of more elements than any tensor has.
TEST(Check, a_case_whose_outputs_fit_no_memory_is_named_with_the_output) {
  const Scratch scratch;
  for (const auto& [length, complaint] : {std::pair(std::int64_t{1} << 31, "tensor 'C': shape [2147483648, 2147483648] of f32 is too large: the call's shared memory has room for "),
                                          std::pair(std::int64_t{1} << 32, "tensor 'C': shape [4294967296, 4294967296] has more than 2^62 elements")}) {
    CaseFile file;
    file.task = "splitk_tall_skinny_gemm";
    file.name = "endless";
    file.inputs.add("A", Tensor(Dtype::f32, {length, 0}));
    file.inputs.add("B", Tensor(Dtype::f32, {0, length}));
    file.outputs.add("C", Tensor(Dtype::f32, {0, 0}));
    const std::string path = scratch.file(std::to_string(length) + ".h5");
    write_case_file(path, file);
    const Outcome outcome = faibench({"check", path});
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_TRUE(is_one_complaint(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(path + ": " + complaint));
  }
}

TEST(Check, a_missing_file_a_foreign_task_and_an_unknown_variant_are_one_line_each) {
  const Scratch scratch;
  CaseFile file;
  file.task = "coalesced_matrix_transpos";
  file.name = "foreign";
  file.inputs.add("x", Tensor(Dtype::f32, {1, 1}));
  file.outputs.add("y", Tensor(Dtype::f32, {1, 1}));
  write_case_file(scratch.file("foreign.h5"), file);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"check", scratch.file("none.h5")}, {"check", scratch.file("foreign.h5")},
                                                {"check", transpose_case(scratch, "small"), "--variant", "cpuu"}, {"check", transpose_case(scratch, "again"), "--variant", "library:/no/such.so"}}) {
    const Outcome outcome = faibench(words);
    EXPECT_EQ(outcome.code, 2) << words.back();
    EXPECT_TRUE(is_one_complaint(outcome.err));
  }
  EXPECT_THAT(faibench({"check", scratch.file("foreign.h5")}).err, HasSubstr("did you mean coalesced_matrix_transpose?"));
}

}  // namespace
}  // namespace faibench
