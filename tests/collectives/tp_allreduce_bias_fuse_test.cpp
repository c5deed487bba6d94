// The one-process form: cases, random cases, case files, threads, instruction sets, and a gate that lets nothing wrong through.
#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace {

using namespace testing_support;

const Task& task() { return *find_task("tp_allreduce_bias_fuse"); }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(tp_allreduce_bias_fuse, EveryVariant, testing::Values("reference", "baseline", "cpu"), [](const auto& i) { return std::string(i.param); });

TEST_P(EveryVariant, holds_on_all_cases) { check_all_cases(task(), GetParam()); }
TEST_P(EveryVariant, holds_on_random_cases) { check_random_cases(task(), GetParam(), 150); }
TEST_P(EveryVariant, holds_on_case_files) { check_case_files(task(), GetParam()); }

TensorMap out_of(const TensorMap& inputs, std::string_view variant = "cpu") { return run_kernel(task().contract, variant_of(task(), variant).kernel, refs(inputs)); }

bool same_out(const TensorMap& a, const TensorMap& b) {
  const Tensor &x = a.at("out"), &y = b.at("out");
  return x.shape() == y.shape() && std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.bytes())) == 0;
}

TEST(TpAllreduceBiasFuse, bits_do_not_depend_on_the_thread_count) {
  for (const Case& c : task().cases) {
    Random random(task().name, c.name, 1, 0);
    const TensorMap inputs = c.inputs(random);
    if (task().contract.validate(refs(inputs))) continue;
    const int before = omp_get_max_threads();
    const TensorMap wanted = out_of(inputs);
    for (int threads : {1, 2, 3, 5}) {
      omp_set_num_threads(threads);
      EXPECT_TRUE(same_out(out_of(inputs), wanted)) << c.name << " on " << threads << " threads";
    }
    omp_set_num_threads(before);
  }
}

TEST(TpAllreduceBiasFuse, bits_do_not_depend_on_the_instruction_set) {
  std::vector<TensorMap> wanted;
  under_every_instruction_set([&](std::int64_t) {
    std::size_t k = 0;
    for (const Case& c : task().cases) {
      Random random(task().name, c.name, 1, 0);
      const TensorMap inputs = c.inputs(random);
      if (task().contract.validate(refs(inputs))) continue;
      TensorMap out = out_of(inputs);
      if (k == wanted.size()) wanted.push_back(std::move(out));
      else EXPECT_TRUE(same_out(out, wanted[k])) << c.name;
      ++k;
    }
  });
}

TEST(TpAllreduceBiasFuse, every_f16_value_goes_through_unchanged_on_every_instruction_set) {
  TensorMap inputs;
  auto x = inputs.add("partials", Tensor(Dtype::f16, {1, 64, 1024})).flat<f16>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  auto b = inputs.add("bias", Tensor(Dtype::f16, {1024})).flat<f16>();
  for (f16& value : b) value.bits = 0x8000;  // -0: adding it changes nothing
  under_every_instruction_set([&](std::int64_t) {
    const TensorMap outputs = out_of(inputs);
    const auto out = outputs.at("out").flat<f16>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool nan = (i & 0x7fff) > 0x7c00;
      EXPECT_EQ(out[i].bits & (nan ? 0x7fff : 0xffff), nan ? 0x7e00 : static_cast<std::uint16_t>(i)) << "bits " << i;
    }
  });
}

TEST(TpAllreduceBiasFuse, buffers_may_start_anywhere) {
  Random random(7);
  const TensorMap inputs = task().find_workload("smoke")->parts[2](random);
  const TensorMap wanted = out_of(inputs);
  const TensorRef x = inputs.at("partials").ref(), b = inputs.at("bias").ref();
  for (std::size_t shift : {2u, 6u, 34u}) {
    Tensor x_room(Dtype::u8, {x.bytes() + 64}), b_room(Dtype::u8, {b.bytes() + 64}), out_room(Dtype::u8, {x.bytes() + 64});
    std::memcpy(x_room.data() + shift, x.data, static_cast<std::size_t>(x.bytes()));
    std::memcpy(b_room.data() + shift, b.data, static_cast<std::size_t>(b.bytes()));
    std::memset(out_room.data(), 0xCB, static_cast<std::size_t>(out_room.bytes()));
    TensorRefMap in, out;
    in.add("partials", {x.dtype, x.shape, x_room.data() + shift});
    in.add("bias", {b.dtype, b.shape, b_room.data() + shift});
    const TensorRef& y = out.add("out", {x.dtype, {x.shape[1], x.shape[2]}, out_room.data() + shift});
    EXPECT_FALSE(call_kernel(task().contract, variant_of(task(), "cpu").kernel, in, out));
    EXPECT_EQ(std::memcmp(y.data, wanted.at("out").data(), static_cast<std::size_t>(y.bytes())), 0) << "shift " << shift;
    EXPECT_EQ(std::to_integer<int>(y.data[y.bytes()]), 0xCB) << "written past the end, shift " << shift;
    EXPECT_EQ(std::to_integer<int>(y.data[-1]), 0xCB) << "written before the start, shift " << shift;
  }
}

TEST(TpAllreduceBiasFuse, the_gate_lets_no_wrong_answer_through) {
  for (const Generator& part : task().find_workload("smoke")->parts) {
    Random random(3), other(4);
    const TensorMap inputs = part(random), earlier = part(other);
    const auto wrong = [&](const TensorMap& outputs) { return task().gate.check({refs(inputs), refs(outputs), {}, {}}).has_value(); };
    EXPECT_FALSE(wrong(out_of(inputs)));
    TensorMap zeros = allocate_outputs(task().contract, refs(inputs));
    EXPECT_TRUE(wrong(zeros));
    EXPECT_TRUE(wrong(out_of(earlier))) << "the answer to another call";
    TensorMap copy = clone(zeros);
    std::memcpy(copy.at("out").data(), inputs.at("partials").data(), static_cast<std::size_t>(copy.at("out").bytes()));
    EXPECT_TRUE(wrong(copy)) << "a copy of an input";
    TensorMap swapped = out_of(inputs);
    std::byte* bytes = swapped.at("out").data();
    const std::int64_t width = size_of(swapped.at("out").dtype());
    std::swap_ranges(bytes, bytes + width, bytes + 5 * width);
    EXPECT_TRUE(wrong(swapped)) << "two elements swapped";
  }
}

TEST(TpAllreduceBiasFuse, the_gate_takes_the_answers_of_case_files) { check_gate_on_answers(task()); }

TEST(TpAllreduceBiasFuse, the_gate_refuses_rounding_to_16_bits_on_the_way) {
  Random random(5);
  const TensorMap inputs = task().find_workload("smoke")->parts[2](random);
  TensorMap outputs = out_of(inputs);
  const auto x = inputs.at("partials").view<bf16, 3>();
  const auto b = inputs.at("bias").view<bf16, 1>();
  auto out = outputs.at("out").view<bf16, 2>();
  for (std::int64_t m = 0; m < out.extent(0); ++m)
    for (std::int64_t n = 0; n < out.extent(1); ++n) {
      bf16 sum = x(0, m, n);
      for (std::int64_t p = 1; p < x.extent(0); ++p) sum = to_bf16(to_float(sum) + to_float(x(p, m, n)));
      out(m, n) = to_bf16(to_float(sum) + to_float(b(n)));
    }
  EXPECT_TRUE(task().gate.check({refs(inputs), refs(outputs), {}, {}}).has_value());
}

TEST(TpAllreduceBiasFuse, the_gate_refuses_other_bits_on_a_second_run) {
  Random random(6);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random);
  const TensorMap outputs = out_of(inputs);
  std::vector<TensorMap> probes;
  probes.push_back(clone(outputs));
  EXPECT_FALSE(task().gate.check({refs(inputs), refs(outputs), {}, probes}).has_value());
  probes[0].at("out").data()[8] ^= std::byte{1};
  EXPECT_TRUE(task().gate.check({refs(inputs), refs(outputs), {}, probes}).has_value());
}

}  // namespace
}  // namespace faibench
