#include "judge/gpu_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_gpu.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing_support::FakeGpus;

class DeviceTensorsTest : public testing::Test {
 protected:
  DeviceTensorsTest() {
    fake.reset(1);
    bench.emplace("");
    inputs.add("x", Tensor::of<float>({3}, {1, 2, 3}));
    inputs.add("pinned", Tensor::of<float>({2}, {4, 5}));
    inputs.add("scale", Tensor::of<float>({}, {6}));
    tensors.emplace(*bench, std::vector<std::string>{"pinned"});
    arena.lay_out(refs(inputs), {{"y", Dtype::f32, {5}, ""}}, {}, 1);
    tensors->make_room(arena.used_bytes(), arena, page);
    tensors->send(arena);
  }
  // As a kernel would.
  void write_on_device(std::byte* at, float value) { bench->cuda().copy(tensors->data() + (at - arena.data()), &value, sizeof value, nullptr); }

  static inline FakeGpus fake{1};
  TensorMap inputs;
  Arena arena;
  ControlPage page{};
  std::optional<GpuBench> bench;
  std::optional<DeviceTensors> tensors;
};

TEST_F(DeviceTensorsTest, come_back_as_a_kernel_left_them) {
  std::byte* y = arena.outputs({}).at("y").data;
  write_on_device(y + 8, 7);
  tensors->fetch(arena);
  EXPECT_EQ(arena.outputs({}).at("y").flat<float>()[2], 7);
  EXPECT_FALSE(arena.violation(refs(inputs)));
}

TEST_F(DeviceTensorsTest, bring_their_guard_zones_and_inputs_to_be_looked_at) {
  std::byte* y = arena.outputs({}).at("y").data;
  write_on_device(y + 20, 7);
  tensors->fetch(arena);
  EXPECT_THAT(arena.violation(refs(inputs)).value_or(""), HasSubstr("y: byte 0 past its end was written"));
  arena.lay_out(refs(inputs), {{"y", Dtype::f32, {5}, ""}}, {}, 2);
  tensors->send(arena);
  const std::int64_t x = 4096;  // the first tensor, behind the first zone
  write_on_device(arena.data() + x + 4, 9);
  tensors->fetch(arena);
  EXPECT_THAT(arena.violation(refs(inputs)).value_or(""), HasSubstr("input x was changed at element 1"));
}

TEST_F(DeviceTensorsTest, leave_scalars_and_host_inputs_where_they_are) {
  const TensorRef vector{Dtype::f32, {3}, nullptr}, scalar{Dtype::f32, {}, nullptr};
  EXPECT_TRUE(tensors->holds("x", vector, false));
  EXPECT_FALSE(tensors->holds("pinned", vector, false));
  EXPECT_FALSE(tensors->holds("scale", scalar, false));
  EXPECT_TRUE(tensors->holds("norm", scalar, true)) << "a kernel writes it";
  arena.lay_out(refs(inputs), {{"y", Dtype::f32, {5}, ""}}, {}, 3);
  for (const auto& [start, bytes] : arena.ranges([&](const std::string& name, const TensorRef& tensor, bool) { return name == "pinned" && tensor.rank() == 1; })) {
    const std::int64_t pinned = start + 4096 + 52;  // x is 12 bytes: its zone ends at the next line
    ASSERT_LT(pinned, start + bytes);
    float value = 0;
    std::memcpy(&value, arena.data() + pinned, sizeof value);
    ASSERT_EQ(value, 4);
    value = 99;
    std::memcpy(arena.data() + pinned, &value, sizeof value);
  }
  tensors->fetch(arena);  // does not cover up what was done to host memory
  EXPECT_THAT(arena.violation(refs(inputs)).value_or(""), HasSubstr("input pinned was changed at element 0"));
}

TEST_F(DeviceTensorsTest, tell_the_candidate_of_every_new_memory) {
  EXPECT_EQ(page.device_generation, 1);
  EXPECT_EQ(page.device_locked, 1u);
  tensors->make_room(100, arena, page);
  EXPECT_EQ(page.device_generation, 1);
  tensors->make_room(std::int64_t{5} << 20, arena, page);
  EXPECT_EQ(page.device_generation, 2);
  EXPECT_EQ(page.device_bytes, std::int64_t{6} << 20);
  const int with_both = fake.state().live[testing_support::FakeGpuState::allocations];
  tensors->retire();  // only now: the candidate has the first one open till it was told
  EXPECT_EQ(fake.state().live[testing_support::FakeGpuState::allocations], with_both - 1);
}

TEST_F(DeviceTensorsTest, give_everything_back) {
  tensors.reset();
  bench.reset();
  EXPECT_EQ(fake.live(), 0);
  EXPECT_EQ(fake.state().wrong_calls, 0);
}

}  // namespace
}  // namespace faibench
