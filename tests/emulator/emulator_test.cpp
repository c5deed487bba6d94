// The emulator on kernels that are right, and on ones with a planted bug: each must be found, where it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "emulator/device.h"
#include "emulator/planted.h"
#include "tensor/half.h"
#include "tensor/random.h"

namespace faibench::emulator {
namespace {

using testing::HasSubstr;
using Kind = Fault::Kind;

/// Vectors lent for as long as this lives: `input` for reading, `output` for writing too.
struct Loan {
  template <class In, class Out>
  Loan(const std::vector<In>& in, std::vector<Out>& out) : input(in.data(), in.size() * sizeof(In), "x", Lent::Access::read), output(out.data(), out.size() * sizeof(Out), "y", Lent::Access::read_write) {}
  Lent input, output;
};

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

void expect_fault(Kind kind, const std::string& words) {
  const auto fault = take_fault();
  ASSERT_TRUE(fault.has_value()) << "no fault; wanted " << name_of(kind);
  EXPECT_EQ(name_of(fault->kind), name_of(kind)) << fault->message;
  EXPECT_THAT(fault->message, HasSubstr(words));
}

std::optional<Fault> run_add_one(planted::Bug bug, std::vector<float>* result = nullptr) {
  const auto x = counting(70);
  std::vector<float> room(72), y(70);
  const Loan loan(x, y);
  planted::add_one(x.data(), y.data(), 70, bug);
  if (result) *result = y;
  return take_fault();
}

TEST(Emulator, runs_every_thread_of_every_block) {
  std::vector<float> y;
  EXPECT_FALSE(run_add_one(planted::Bug::none, &y).has_value());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], static_cast<float>(i + 2));
}

TEST(Emulator, tells_threads_who_they_are_in_two_dimensions) {
  std::vector<int> out(6 * 15);
  const Lent lent(out.data(), out.size() * sizeof(int), "out", Lent::Access::read_write);
  planted::number_threads(out.data(), 3, 5, 2, 3);
  ASSERT_FALSE(take_fault().has_value());
  for (int y = 0; y < 15; ++y)
    for (int x = 0; x < 6; ++x) EXPECT_EQ(out[static_cast<std::size_t>(y * 6 + x)], 1000 * y + x);
}

TEST(Emulator, finds_a_write_one_element_past_the_end) {
  const auto fault = run_add_one(planted::Bug::past_the_end);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, Kind::out_of_bounds);
  EXPECT_EQ(fault->block.x, 2u);
  EXPECT_EQ(fault->thread.x, 6u);
  EXPECT_THAT(fault->message, HasSubstr("kernel add_one, block (2,0,0), thread (6,0,0), address 0x"));
  EXPECT_THAT(fault->message, HasSubstr("0 bytes past the end of 'y' (280 bytes)"));
}

TEST(Emulator, finds_a_write_before_the_start) {
  const auto fault = run_add_one(planted::Bug::before_the_start);
  ASSERT_TRUE(fault.has_value());
  EXPECT_THAT(fault->message, HasSubstr("4 bytes before the start of 'y'"));
}

TEST(Emulator, finds_a_write_to_an_input) {
  const auto fault = run_add_one(planted::Bug::writes_input);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, Kind::write_to_input);
  EXPECT_THAT(fault->message, HasSubstr("'x' is lent for reading"));
}

TEST(Emulator, finds_a_misaligned_vector_access) {
  const auto fault = run_add_one(planted::Bug::misaligned);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, Kind::misaligned);
  EXPECT_EQ(fault->thread.x, 7u);
}

TEST(Emulator, keeps_a_fault_until_it_is_taken_and_launches_nothing_before) {
  const auto x = counting(70);
  std::vector<float> y(70);
  const Loan loan(x, y);
  planted::add_one(x.data(), y.data(), 70, planted::Bug::past_the_end);
  std::fill(y.begin(), y.end(), 0.0f);
  planted::add_one(x.data(), y.data(), 70, planted::Bug::none);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_TRUE(take_fault().has_value());
  planted::add_one(x.data(), y.data(), 70, planted::Bug::none);
  EXPECT_EQ(y[0], 2.0f);
  EXPECT_FALSE(take_fault().has_value());
}

void reverse(planted::SharedBug bug, bool check = false) {
  const auto x = counting(128);
  std::vector<float> y(128);
  const Loan loan(x, y);
  planted::reverse_blocks(x.data(), y.data(), 2, bug);
  if (!check) return;
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i / 64 * 64 + 63 - i % 64]);
}

TEST(Emulator, passes_values_through_shared_memory) {
  reverse(planted::SharedBug::none, true);
  EXPECT_FALSE(take_fault().has_value());
}
TEST(Emulator, finds_a_missing_barrier_between_write_and_read) {
  reverse(planted::SharedBug::no_barrier);
  const auto fault = take_fault();
  ASSERT_TRUE(fault.has_value());
  EXPECT_TRUE(fault->kind == Kind::race || fault->kind == Kind::never_written) << fault->message;
}
TEST(Emulator, finds_a_missing_barrier_between_read_and_the_next_write) {
  reverse(planted::SharedBug::no_second_barrier);
  expect_fault(Kind::race, "with no barrier between");
}
TEST(Emulator, finds_a_read_of_shared_memory_never_written) {
  reverse(planted::SharedBug::half_written);
  expect_fault(Kind::never_written, "nothing of this block has written it");
}
TEST(Emulator, finds_an_index_past_a_shared_array) {
  reverse(planted::SharedBug::past_the_array);
  expect_fault(Kind::out_of_bounds, "an index past the extent of its array");
}
TEST(Emulator, finds_an_access_past_dynamic_shared_memory) {
  reverse(planted::SharedBug::past_dynamic_memory);
  expect_fault(Kind::out_of_bounds, "past the end of dynamic shared memory");
}

void sum(planted::SyncBug bug, bool check = false) {
  std::vector<int> x(128), sums(2);
  std::iota(x.begin(), x.end(), 0);
  const Loan loan(x, sums);
  planted::sum_blocks(x.data(), sums.data(), 2, bug);
  if (check) { EXPECT_THAT(sums, testing::ElementsAre(63 * 32, 63 * 32 + 64 * 64)); }
}

TEST(Emulator, adds_over_warps_by_shuffles_and_an_atomic) {
  sum(planted::SyncBug::none, true);
  EXPECT_FALSE(take_fault().has_value());
}
TEST(Emulator, finds_a_barrier_that_one_thread_never_reaches) {
  sum(planted::SyncBug::early_exit);
  expect_fault(Kind::divergent_barrier, "thread (40,0,0) has ended without it");
}
TEST(Emulator, finds_threads_at_different_barriers) {
  sum(planted::SyncBug::two_barriers);
  expect_fault(Kind::divergent_barrier, "at that of line");
}
TEST(Emulator, finds_a_lane_missing_from_a_shuffle) {
  sum(planted::SyncBug::missing_lane);
  expect_fault(Kind::divergent_warp, "waits for lane 3");
}
TEST(Emulator, finds_lanes_that_disagree_about_the_mask) {
  sum(planted::SyncBug::other_mask);
  expect_fault(Kind::divergent_warp, "waits for lane");
}
TEST(Emulator, finds_a_shuffle_from_a_lane_outside_its_mask) {
  sum(planted::SyncBug::read_outside_mask);
  expect_fault(Kind::divergent_warp, "that the mask leaves out");
}
TEST(Emulator, finds_two_warps_that_add_without_an_atomic) {
  sum(planted::SyncBug::plain_add);
  expect_fault(Kind::race, "with no barrier between");
}

TEST(Emulator, delivers_asynchronous_copies_at_the_wait_and_not_before) {
  const auto x = counting(64);
  std::vector<float> y(64);
  const Loan loan(x, y);
  planted::copy_through(x.data(), y.data(), 2, true);
  ASSERT_FALSE(take_fault().has_value());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i % 32 < 30 ? x[i] : 0.0f) << "the last copy takes two of four";
  planted::copy_through(x.data(), y.data(), 2, false);
  expect_fault(Kind::never_written, "");
}

template <class T>
void multiply_matches(bool bfloat, bool swapped, bool right) {
  Random random(3);
  std::vector<T> a(256), b(128);
  for (T& v : a) v = round_to<T>(static_cast<float>(random.between(-8, 8)));
  for (T& v : b) v = round_to<T>(static_cast<float>(random.between(-8, 8)));
  std::vector<float> d(128), wanted(128);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j)
      for (std::size_t k = 0; k < 16; ++k) wanted[i * 8 + j] += to_float(a[i * 16 + k]) * to_float(b[k * 8 + j]);
  const Loan loan(a, d);
  const Lent more(b.data(), b.size() * sizeof(T), "b", Lent::Access::read);
  planted::multiply_half(a.data(), b.data(), d.data(), bfloat, swapped);
  const auto fault = take_fault();
  ASSERT_FALSE(fault.has_value()) << fault->message;
  EXPECT_EQ(d == wanted, right);
}

TEST(Emulator, multiplies_matrices_of_f16_in_the_fragments_of_the_hardware) { multiply_matches<f16>(false, false, true); }
TEST(Emulator, multiplies_matrices_of_bf16_in_the_fragments_of_the_hardware) { multiply_matches<bf16>(true, false, true); }
TEST(Emulator, shows_a_wrong_fragment_index_as_a_wrong_product) { multiply_matches<f16>(false, true, false); }

TEST(Emulator, multiplies_matrices_of_tf32_with_the_precision_it_has) {
  std::vector<float> a(128), b(64), d(128), wanted(128);
  Random random(4);
  for (float& v : a) v = static_cast<float>(random.between(-1000, 1000));
  for (float& v : b) v = static_cast<float>(random.between(-8, 8));
  a[0] = 1.0f + 0x1p-20f;  // beyond tf32's ten bits: taken for 1
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j)
      for (std::size_t k = 0; k < 8; ++k) wanted[i * 8 + j] += (i == 0 && k == 0 ? 1.0f : a[i * 8 + k]) * b[k * 8 + j];
  const Loan loan(a, d);
  const Lent more(b.data(), b.size() * sizeof(float), "b", Lent::Access::read);
  planted::multiply_tf32(a.data(), b.data(), d.data());
  const auto fault = take_fault();
  ASSERT_FALSE(fault.has_value()) << fault->message;
  EXPECT_EQ(d, wanted);
}

TEST(Emulator, refuses_a_block_of_more_than_1024_threads) {
  std::vector<float> y(1);
  const Lent lent(y.data(), 4, "y", Lent::Access::read_write);
  planted::too_many_threads(y.data());
  expect_fault(Kind::bad_launch, "(2048,1,1) threads");
}

}  // namespace
}  // namespace faibench::emulator
