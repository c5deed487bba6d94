// A made-up /proc and /sys: what is read, and what is said about it.
#include "cli/machine_state.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "cli/program.h"

namespace faibench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Scratch;

class FakeRoot {
 public:
  void set(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((scratch_.path() / name).parent_path());
    scratch_.write(name, text + "\n");
  }
  [[nodiscard]] std::filesystem::path path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
};

TEST(ObserveMachine, reads_settings_memory_and_limits) {
  FakeRoot root;
  root.set("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
  root.set("sys/devices/system/cpu/intel_pstate/no_turbo", "0");
  root.set("sys/devices/system/cpu/smt/active", "1");
  root.set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  root.set("proc/loadavg", "1.25 0.5 0.1 1/200 4711");
  root.set("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 500 kB");
  root.set("proc/cpuinfo", "processor : 0\nflags : fpu sse2 hypervisor avx2");
  root.set("sys/fs/cgroup/cpu.max", "150000 100000");
  root.set("sys/fs/cgroup/memory.max", "1048576");
  const MachineState state = observe_machine(0, root.path());
  EXPECT_EQ(state.governor, "powersave");
  EXPECT_EQ(state.turbo, "on");
  EXPECT_EQ(state.smt, "on");
  EXPECT_EQ(state.huge_pages, "madvise");
  EXPECT_TRUE(state.virtual_machine);
  EXPECT_EQ(state.load, 1.25);
  EXPECT_EQ(state.memory_bytes, 1000 * 1024);
  EXPECT_EQ(state.memory_available_bytes, 500 * 1024);
  EXPECT_EQ(state.cpu_quota, 1.5);
  EXPECT_EQ(state.memory_limit_bytes, 1048576);
}

TEST(ObserveMachine, a_machine_that_tells_nothing_gives_nothing) {
  FakeRoot root;
  const MachineState state = observe_machine(0, root.path());
  EXPECT_EQ(state.governor, "");
  EXPECT_EQ(state.turbo, "");
  EXPECT_EQ(state.load, -1);
  EXPECT_EQ(state.cpu_quota, -1);
  EXPECT_EQ(state.memory_bytes, -1);
  EXPECT_EQ(state.steal, -1);
  EXPECT_THAT(disturbances(state, 4), IsEmpty());
}

TEST(ObserveMachine, a_control_group_without_limits_is_no_limit) {
  FakeRoot root;
  root.set("sys/fs/cgroup/cpu.max", "max 100000");
  root.set("sys/fs/cgroup/memory.max", "max");
  const MachineState state = observe_machine(0, root.path());
  EXPECT_EQ(state.cpu_quota, -1);
  EXPECT_EQ(state.memory_limit_bytes, -1);
}

TEST(Ticks, name_busy_processes_also_with_odd_names_and_the_stolen_share) {
  FakeRoot root;
  const auto ticks = [](int seconds) { return std::to_string(seconds * sysconf(_SC_CLK_TCK)); };
  root.set("proc/stat", "cpu 100 0 0 100 0 0 0 0 0 0");
  root.set("proc/4711/stat", "4711 (a) b (c) R 1 1 1 0 -1 0 0 0 0 0 " + ticks(5) + " " + ticks(1) + " 0 0");
  root.set("proc/4712/stat", "4712 (idle) S 1 1 1 0 -1 0 0 0 0 0 7 7 0 0");
  const Ticks before = read_ticks(root.path());
  root.set("proc/stat", "cpu 150 0 0 120 0 0 0 30 0 0");
  root.set("proc/4711/stat", "4711 (a) b (c) R 1 1 1 0 -1 0 0 0 0 0 " + ticks(6) + " " + ticks(2) + " 0 0");
  MachineState state;
  add_rates(before, read_ticks(root.path()), 4.0, state);
  EXPECT_DOUBLE_EQ(state.steal, 0.3);
  ASSERT_EQ(state.busy.size(), 1u);
  EXPECT_EQ(state.busy[0].pid, 4711);
  EXPECT_EQ(state.busy[0].name, "a) b (c");
  EXPECT_DOUBLE_EQ(state.busy[0].cores, 0.5);
}

TEST(Disturbances, each_says_what_it_is_and_what_to_do) {
  MachineState state;
  state.governor = "powersave";
  state.cpu_quota = 1.5;
  state.steal = 0.05;
  state.busy = {{42, "stress", 0.98}};
  const auto lines = disturbances(state, 2);
  EXPECT_THAT(lines, Contains(HasSubstr("process 42 (stress) takes 98% of a core")));
  EXPECT_THAT(lines, Contains(HasSubstr("governor 'powersave': set it to 'performance'")));
  EXPECT_THAT(lines, Contains(HasSubstr("grants 1.5 cores to 2 threads")));
  EXPECT_THAT(lines, Contains(HasSubstr("5.0% of this machine's time")));
  EXPECT_EQ(lines.size(), 4u);
}

TEST(Disturbances, a_quota_that_is_enough_is_none) {
  MachineState state;
  state.cpu_quota = 2;
  EXPECT_THAT(disturbances(state, 2), IsEmpty());
}

}  // namespace
}  // namespace faibench
