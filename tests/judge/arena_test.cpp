#include "judge/arena.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

namespace faibench {
namespace {

struct ArenaTest : testing::Test {
  ArenaTest() {
    inputs.add("x", Tensor::of<float>({3}, {1, 2, 3}));
    inputs.add("state", Tensor::of<std::int32_t>({2}, {5, 6}));
    arena.lay_out(refs(inputs), {{"y", Dtype::f32, {5}, ""}, {"n", Dtype::u8, {3}, ""}}, {"state"}, 1);
  }
  TensorMap inputs;
  Arena arena;
};

TEST_F(ArenaTest, outputs_are_poison_that_reads_as_nan) {
  for (float y : arena.outputs({}).at("y").flat<float>()) EXPECT_TRUE(std::isnan(y));
  EXPECT_TRUE(arena.outputs_untouched());
}

TEST_F(ArenaTest, poison_is_nan_in_every_float_type) {
  for (std::uint64_t nonce = 0; nonce < 100; ++nonce) {
    arena.lay_out({}, {{"a", Dtype::f16, {1}, ""}, {"b", Dtype::bf16, {1}, ""}, {"c", Dtype::f64, {1}, ""}}, {}, nonce);
    const TensorRefMap outputs = arena.outputs({});
    EXPECT_TRUE(std::isnan(to_float(outputs.at("a").flat<f16>()[0])));
    EXPECT_TRUE(std::isnan(to_float(outputs.at("b").flat<bf16>()[0])));
    EXPECT_TRUE(std::isnan(outputs.at("c").flat<double>()[0]));
  }
}

TEST_F(ArenaTest, ranges_of_chosen_tensors_take_their_guard_zones_along) {
  const auto of = [&](const std::string& chosen) { return arena.ranges([&](const std::string& name, const TensorRef&, bool) { return name == chosen; }); };
  const auto all = arena.ranges([](const std::string&, const TensorRef&, bool) { return true; });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0], std::pair(std::int64_t{0}, arena.used_bytes()));
  EXPECT_TRUE(arena.ranges([](const std::string&, const TensorRef&, bool) { return false; }).empty());
  const std::int64_t y = arena.outputs({}).at("y").data - arena.data(), n = arena.outputs({}).at("n").data - arena.data();
  ASSERT_EQ(of("y").size(), 1u);
  EXPECT_LE(of("y")[0].first, y - 4096);
  EXPECT_EQ(of("y")[0].first + of("y")[0].second, n);  // up to the next tensor
  EXPECT_EQ(of("state").size(), 1u);                   // as input and as output, side by side
}

TEST_F(ArenaTest, in_place_tensors_start_as_their_input) { EXPECT_EQ(arena.outputs({}).at("state").flat<std::int32_t>()[1], 6); }

TEST_F(ArenaTest, tensors_are_aligned_to_cache_lines) {
  for (const auto& [name, tensor] : arena.outputs({})) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % 64, 0u) << name;
}

TEST_F(ArenaTest, writing_inside_the_outputs_is_no_violation) {
  std::memset(arena.outputs({}).at("y").data, 0, 20);
  EXPECT_FALSE(arena.violation(refs(inputs)));
  EXPECT_FALSE(arena.outputs_untouched());
}

TEST_F(ArenaTest, one_byte_past_an_output_is_seen) {
  arena.outputs({}).at("n").data[3] = std::byte{1};
  ASSERT_TRUE(arena.violation(refs(inputs)));
  EXPECT_NE(arena.violation(refs(inputs))->find("n: byte 0 past its end"), std::string::npos) << *arena.violation(refs(inputs));
}

TEST_F(ArenaTest, one_byte_before_an_output_is_seen) {
  arena.outputs({}).at("y").data[-1] = std::byte{1};
  ASSERT_TRUE(arena.violation(refs(inputs)));
  EXPECT_NE(arena.violation(refs(inputs))->find("y: byte 1 before its start"), std::string::npos) << *arena.violation(refs(inputs));
}

TEST_F(ArenaTest, a_changed_input_is_named_with_its_element) {
  TensorMap other = clone(inputs);
  other.at("x").flat<float>()[2] = 4;
  ASSERT_TRUE(arena.violation(refs(other)));
  EXPECT_EQ(*arena.violation(refs(other)), "input x was changed at element 2");
}

TEST_F(ArenaTest, lengths_cut_outputs) { EXPECT_EQ(arena.outputs({-1, 2, -1}).at("y").shape, (Shape{2})); }

TEST_F(ArenaTest, a_call_without_tensors_is_no_violation) {
  Arena fresh;
  fresh.lay_out({}, {}, {}, 1);
  EXPECT_FALSE(fresh.violation({}));
}

TEST_F(ArenaTest, the_memory_cannot_be_cut_short) { EXPECT_NE(ftruncate(arena.descriptor(), 0), 0); }

}  // namespace
}  // namespace faibench
