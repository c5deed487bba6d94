// scripts/setup.sh with made-up package tools on the path: what it installs, says and returns. Nothing is installed.
#include <gmock/gmock.h>

#include "cli/program.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::Outcome;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::Scratch;

/// A path with a few real tools and whatever the test adds.
class ToolBox {
 public:
  ToolBox() {
    for (const char* tool : {"bash", "sed", "grep", "env", "mktemp", "tail", "rm", "basename", "dirname", "cat"}) {
      const Outcome where = run_command({"sh", "-c", std::string("command -v ") + tool});
      std::filesystem::create_symlink(where.out.substr(0, where.out.find('\n')), scratch_.path() / tool);
    }
    add("id", "echo 0");
  }
  void add(const std::string& name, const std::string& body) {
    std::filesystem::permissions(scratch_.write(name, "#!" + scratch_.file("bash") + "\n" + body + "\n"), std::filesystem::perms::all);
  }
  [[nodiscard]] Outcome set_up(const std::string& what) const {
    return run_command({"bash", "-c", "set -euo pipefail; source \"$FAIBENCH_SOURCE/scripts/setup.sh\"; set_up " + what + "; echo done"}, {{"PATH=" + scratch_.path().string()}, ""});
  }
  [[nodiscard]] std::string log() const { return read_text(scratch_.path() / "log"); }
  [[nodiscard]] std::string log_path() const { return scratch_.file("log"); }

 private:
  Scratch scratch_;
};

const char* const everything_installed =
    "for p in g++ cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libhdf5-dev libcli11-dev libfmt-dev nlohmann-json3-dev libhwy-dev libhwloc-dev:amd64 libxxhash-dev"
    "; do echo \"installed $p\"; done; echo 'not-installed libgtest-dev'";

TEST(Setup, runs_no_apt_when_nothing_is_missing) {
  ToolBox box;
  box.add("dpkg-query", everything_installed);
  box.add("apt-get", "echo \"$@\" >> " + box.log_path());
  const Outcome outcome = box.set_up("run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "done\n");
  EXPECT_EQ(box.log(), "");
}

TEST(Setup, installs_just_what_is_missing_and_says_so_in_one_line) {
  ToolBox box;
  box.add("dpkg-query", everything_installed);
  box.add("apt-get", "echo \"$@\" >> " + box.log_path());
  const Outcome outcome = box.set_up("test");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::MatchesRegex("Installing with apt-get: libgtest-dev [^\n]* python3-matplotlib\nInstalling with apt-get: slurm-wlm munge iproute2\ndone\n"));
  EXPECT_THAT(box.log(), HasSubstr(" update\n"));
  EXPECT_THAT(box.log(), HasSubstr("install -y --no-install-recommends libgtest-dev libgmock-dev "));
  EXPECT_THAT(box.log(), Not(HasSubstr("cmake")));
}

TEST(Setup, stops_with_exit_code_2_and_the_reason_when_apt_fails) {
  ToolBox box;
  box.add("dpkg-query", everything_installed);
  box.add("apt-get", "echo 'E: no network'; exit 100");
  const Outcome outcome = box.set_up("test");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("E: no network"));
  EXPECT_THAT(outcome.err, HasSubstr("apt-get could not install"));
}

TEST(Setup, goes_on_without_the_packages_of_tests_that_can_be_skipped) {
  ToolBox box;
  box.add("dpkg-query", everything_installed);
  box.add("apt-get", "case \"$*\" in *slurm-wlm*) echo 'E: no such package'; exit 100; esac");
  const Outcome outcome = box.set_up("test");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("apt-get could not install: slurm-wlm munge iproute2"));
  EXPECT_THAT(outcome.out, HasSubstr("(ctest -L cluster) will be skipped\ndone\n"));
}

TEST(Setup, without_root_names_the_command_to_type) {
  ToolBox box;
  box.add("id", "echo 1000");
  box.add("dpkg-query", everything_installed);
  box.add("apt-get", "echo \"$@\" >> " + box.log_path());
  const Outcome outcome = box.set_up("test");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("apt-get install libgtest-dev"));
  EXPECT_EQ(box.log(), "");
}

TEST(Setup, elsewhere_lists_what_to_install_and_stops_with_exit_code_2) {
  ToolBox box;
  const Outcome outcome = box.set_up("run");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("CMake 3.25"));
  EXPECT_THAT(outcome.err, HasSubstr("missing here: cmake, ninja, c++, pkg-config, mpicxx, mpirun"));
}

TEST(Setup, elsewhere_goes_on_when_everything_is_there) {
  ToolBox box;
  for (const char* tool : {"cmake", "ninja", "c++", "mpicxx", "mpirun", "pkg-config"}) box.add(tool, "exit 0");
  const Outcome outcome = box.set_up("run");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "done\n");
}

class Script : public testing::TestWithParam<const char*> {};
TEST_P(Script, is_executable_and_parses) {
  const std::string path = std::string(std::getenv("FAIBENCH_SOURCE")) + "/" + GetParam();
  EXPECT_EQ(access(path.c_str(), X_OK), 0);
  EXPECT_EQ(run_command({"bash", "-n", path}).code, 0);
}
INSTANTIATE_TEST_SUITE_P(scripts, Script, testing::Values("run.sh", "test.sh", ".ci/run"));

}  // namespace
}  // namespace faibench
