#include "launch/sweep.h"

#include <gmock/gmock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace faibench {
namespace {

// A process with or without the cookie, stopped or not; gone with its owner.
class Sleeper {
 public:
  explicit Sleeper(const std::string& cookie, bool stopped = false) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      setenv(job_variable, cookie.c_str(), 1);
      execlp("sleep", "sleep", "300", nullptr);
      _exit(127);
    }
    close(ready[1]);
    char byte;
    while (read(ready[0], &byte, 1) < 0 && errno == EINTR) {}  // until exec: its environment counts from then on
    close(ready[0]);
    if (stopped) kill(pid_, SIGSTOP);
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    if (!gone_) waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  bool ended() {
    if (!gone_) gone_ = waitpid(pid_, nullptr, WNOHANG) == pid_;
    return gone_;
  }

 private:
  pid_t pid_ = -1;
  bool gone_ = false;
};

TEST(Sweep, ends_what_carries_the_cookie_and_nothing_else) {
  const std::string cookie = new_job_cookie();
  Sleeper running(cookie), stopped(cookie, true), other(cookie + "0"), older(new_job_cookie());
  EXPECT_THAT(processes_of_job(cookie), testing::UnorderedElementsAre(running.pid(), stopped.pid()));
  EXPECT_EQ(sweep(cookie, 5), 2);
  EXPECT_TRUE(running.ended());
  EXPECT_TRUE(stopped.ended());
  EXPECT_FALSE(other.ended());
  EXPECT_FALSE(older.ended());
  EXPECT_EQ(sweep(cookie, 5), 0);
}

TEST(Sweep, ends_neither_itself_nor_those_it_came_from) {
  const std::string cookie = new_job_cookie();
  const pid_t pid = fork();
  if (pid == 0) {  // a process of the job that starts another one which sweeps
    setenv(job_variable, cookie.c_str(), 1);
    const pid_t child = fork();
    if (child == 0) _exit(sweep(cookie, 1));
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Sweep, without_a_cookie_ends_nothing) { EXPECT_TRUE(processes_of_job("").empty()); }

TEST(Cookie, is_another_one_each_time) { EXPECT_NE(new_job_cookie(), new_job_cookie()); }

}  // namespace
}  // namespace faibench
