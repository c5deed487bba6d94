// CUDA variants on the emulator: right on every case, and without a fault in how they get there.
#include <set>

#include "emulator/emulated_call.h"
#include "kernels/task_harness.h"
#include "task/device_variants.h"

namespace faibench::testing_support {
namespace {

struct Emulated {
  std::string task;
  Variant variant;
};
std::ostream& operator<<(std::ostream& out, const Emulated& emulated) { return out << emulated.task << " " << emulated.variant.name; }

std::vector<Emulated> variants() {
  std::vector<Emulated> list;
  for (const DeviceTask& task : all_device_tasks())
    for (const DeviceVariant& variant : task.variants) {
      const Variant* listed = find_task(task.task)->find_variant(variant.name);
      list.push_back({std::string(task.task), {variant.name, emulator::emulated_call(variant.kernel, listed ? listed->on_host : std::vector<std::string>()), ""}});
    }
  return list;
}

TEST(DeviceTasks, are_those_that_the_tasks_list) {
  for (const Task* task : all_tasks()) {
    std::set<std::string> listed, bound;
    for (const Variant& variant : task->variants)
      if (variant.on_device && !variant.name.starts_with("peer:")) listed.insert(variant.name);
    for (const DeviceTask& device : all_device_tasks())
      if (device.task == task->name)
        for (const DeviceVariant& variant : device.variants) bound.insert(variant.name);
    EXPECT_EQ(listed, bound) << task->name;
  }
}

class EachEmulated : public testing::TestWithParam<Emulated> {
 protected:
  const Task& task() const { return *find_task(GetParam().task); }
};

// A case that takes the emulator long is one whose size is what it is about.
TEST_P(EachEmulated, is_right_on_every_case) {
  for (const Case& c : task().cases) {
    SCOPED_TRACE(c.name);
    Random random(task().name, c.name, 1, 0);
    check_inputs(task(), GetParam().variant, c.inputs(random));
  }
}

TEST_P(EachEmulated, is_right_on_random_cases) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    Random random(task().name, "random", 1, i);
    check_inputs(task(), GetParam().variant, task().random_case(random));
  }
}

TEST_P(EachEmulated, is_right_on_the_case_files) {
  const std::filesystem::path folder = std::filesystem::path(std::getenv("FAIBENCH_CASES")) / task().name;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    check_inputs(task(), GetParam().variant, read_case_file(entry.path()).inputs);
    ++files;
  }
  EXPECT_GT(files, 0);
}

INSTANTIATE_TEST_SUITE_P(EmulatedKernels, EachEmulated, testing::ValuesIn(variants()), [](const auto& info) { return info.param.task + "_" + info.param.variant.name; });

}  // namespace
}  // namespace faibench::testing_support
