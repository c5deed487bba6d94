#include "launch/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "launch/stamp.h"
#include "patience.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing::HasSubstr;
using testing::Not;

int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// A folder with a launcher that only starts the program, and a program that a test writes in shell. What it does may depend on $n, the number of the launch.
class Stage {
 public:
  explicit Stage(const std::string& program) {
    write("mpirun", "#!/bin/sh\nwhile [ \"${1##*/}\" != program ]; do shift; done\nexec \"$@\"\n");
    write("program", "#!/bin/bash\ncd " + folder_.path().string() + "\n[ $1 = launch ] && { echo $3 >> swept; exit 0; }\necho x >> launches\nn=$(wc -l < launches)\necho \"$@\" >> words\n" + stamp_function() + program);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  // Exit code of supervise() in a process of its own, whose words are in "said".
  int supervise_it(double hang_after, const std::function<void(pid_t)>& meanwhile = {}) const {
    const pid_t pid = fork();
    if (pid == 0) {
      std::ofstream said(path("said"));
      LaunchOptions options;
      options.launcher = path("mpirun");
      options.program = path("program");
      options.hang_after_seconds = hang_after;
      options.job = {"run", "--out", path("run.h5")};
      int code = 99;
      try {
        code = supervise(JobCommand(options), {.say = [&](const std::string& line) { said << line << std::endl; }, .pass_on = [&](std::string_view bytes) { said << bytes << std::flush; }});
      } catch (const std::exception& e) {
        said << e.what() << std::endl;
      }
      _exit(code);
    }
    if (meanwhile) meanwhile(pid);
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
  }
  void wait_for(const std::string& name) const {
    EXPECT_TRUE(testing_support::wait_until([&] { return access(path(name).c_str(), F_OK) == 0; })) << name;
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    chmod(path(name).c_str(), 0755);
  }
  // stamp BEATS STEPS DEADLINE ITEM: what a rank would leave.
  static std::string stamp_function() {
    return "stamp() { mkdir -p run.ranks; echo '{\"job\":\"'$FAIBENCH_JOB'\",\"rank\":0,\"host\":\"here\",\"pid\":1,\"phase\":\"gang\",\"detail\":\"block 3\",\"item\":\"'$4'\",\"deadline_seconds\":'$3',"
           "\"steps\":'$2',\"beats\":'$1',\"beat_seconds\":0.2}' > run.ranks/0.new; mv run.ranks/0.new run.ranks/0; }\n"
           "verdict() { [ -f run.jsonl ] || echo '{\"format\":1}' > run.jsonl; echo '{}' >> run.jsonl; }\n";
  }
  testing_support::TemporaryFolder folder_;
};

TEST(Supervisor, hands_on_the_exit_code_of_a_job_that_comes_to_its_end) {
  for (int code : {0, 1, 2, 3}) {
    const Stage stage("exit " + std::to_string(code) + "\n");
    EXPECT_EQ(stage.supervise_it(60), code);
    EXPECT_EQ(stage.text("words"), "run --out " + stage.path("run.h5") + "\n");
    EXPECT_EQ(stage.text("said"), "");
  }
}

TEST(Supervisor, goes_on_over_the_journal_after_a_death) {
  const Stage stage("[ $n = 1 ] && { verdict; stamp 1 1 60 t/cpu; echo 'mpirun noticed that process rank 3 with PID 0 on node h2 exited on signal 9 (Killed).' >&2; kill -9 $$; }\nrm -rf run.ranks; exit 1\n");
  EXPECT_EQ(stage.supervise_it(60), 1);
  EXPECT_EQ(stage.text("words"), "run --out " + stage.path("run.h5") + "\nrun --resume " + stage.path("run.h5") + "\n");
  EXPECT_THAT(stage.text("said"), HasSubstr("rank 3 on h2 died of signal 9 (Killed); 1 record is safe in " + stage.path("run.h5") + "; going on with launch 2"));
  EXPECT_EQ(lines_of(stage.text("swept")), 1) << "the host of the stamp is not this one: it is swept through the launcher";
}

TEST(Supervisor, gives_up_an_item_that_breaks_the_job_three_times) {
  const Stage stage("[ $n = 4 ] && { rm -rf run.ranks; exit 1; }\nstamp 1 1 60 t/cpu; [ $n = 1 ] && verdict; kill -9 $$\n");
  EXPECT_EQ(stage.supervise_it(60), 1);
  EXPECT_EQ(lines_of(stage.text("launches")), 4);
  EXPECT_THAT(stage.text("words"), HasSubstr("--give-up t/cpu=the job ended with exit code 137; in flight at 3 breaks of the job\n"));
}

TEST(Supervisor, gives_up_where_no_launch_gets_anywhere) {
  const Stage stage("kill -9 $$\n");
  EXPECT_EQ(stage.supervise_it(60), 4);
  EXPECT_EQ(lines_of(stage.text("launches")), 3);
  EXPECT_THAT(stage.text("said"), HasSubstr("giving up"));
}

TEST(Supervisor, takes_no_journal_of_earlier_days_for_its_own) {
  const Stage stage("[ $n = 1 ] && kill -9 $$\nexit 0\n");
  std::ofstream(stage.path("run.jsonl")) << "{\"format\":1}\n{}\n";
  EXPECT_EQ(stage.supervise_it(60), 0);
  EXPECT_THAT(stage.text("words"), Not(HasSubstr("--resume")));
}

TEST(Supervisor, ends_a_rank_without_a_sign_of_life_and_names_it) {
  const Stage stage("[ $n = 2 ] && { rm -rf run.ranks; exit 0; }\nstamp 1 1 60 t/mpi@2\nsleep 10000\n");
  EXPECT_EQ(stage.supervise_it(2), 0);
  EXPECT_THAT(stage.text("said"), HasSubstr("rank 0 on here shows no sign of life"));
  EXPECT_THAT(stage.text("said"), HasSubstr("gang t/mpi@2 (block 3)"));
}

TEST(Supervisor, blames_what_a_hung_rank_had_in_hand_even_where_it_tidies_up_at_last) {
  const Stage stage("[ $n = 4 ] && { rm -rf run.ranks; exit 0; }\ntrap 'rm -rf run.ranks; exit 143' TERM\nstamp 1 1 60 t/mpi@2\nwhile :; do sleep 0.05; done\n");
  EXPECT_EQ(stage.supervise_it(1), 0);
  EXPECT_THAT(stage.text("said"), HasSubstr("shows no sign of life"));
  EXPECT_EQ(lines_of(stage.text("launches")), 4);
}

TEST(Supervisor, leaves_no_process_of_the_job) {
  const Stage stage("setsid sleep 300 & echo $! > orphan\nexit 0\n");
  EXPECT_EQ(stage.supervise_it(60), 0);
  EXPECT_EQ(kill(std::stoi(stage.text("orphan")), 0), -1);
  EXPECT_THAT(stage.text("said"), HasSubstr("1 process was left of the job"));
}

TEST(Supervisor, stops_the_job_cleanly_when_told_to) {
  for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, {SIGINT, 130}, {SIGUSR1, 1}}) {
    const Stage stage("trap 'echo clean > stopped; rm -rf run.ranks; exit 1' USR1\nstamp 1 1 60 t/cpu\ntouch ready\nwhile :; do sleep 0.05; done\n");
    EXPECT_EQ(stage.supervise_it(60, [&](pid_t pid) {
      stage.wait_for("ready");
      kill(pid, signal);
    }), code);
    EXPECT_EQ(stage.text("stopped"), "clean\n");
    EXPECT_EQ(lines_of(stage.text("launches")), 1);
  }
}

TEST(Supervisor, says_that_its_launcher_is_missing) {
  const Stage stage("exit 0\n");
  std::filesystem::remove(stage.path("mpirun"));
  EXPECT_EQ(stage.supervise_it(60), 99);
  EXPECT_THAT(stage.text("said"), HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace faibench
