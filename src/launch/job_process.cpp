#include "launch/job_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "launch/stamp.h"
#include "launch/sweep.h"
#include "tensor/error.h"

namespace faibench {
namespace {

// In the child, between fork and exec: this program has one thread here.
void prepare_environment(const JobSurroundings& surroundings) {
  setenv(job_variable, surroundings.cookie.c_str(), 1);
  setenv(hang_after_variable, std::to_string(surroundings.hang_after_seconds).c_str(), 1);
  // Open MPI's daemons repeat OMPI_MCA_ variables on the command line of those that they start: by this one the sweep knows them.
  setenv("OMPI_MCA_faibench_job", surroundings.cookie.c_str(), 1);
  // The ssh that starts a daemon stays: where the daemon cannot come up or call back, mpirun would wait for it for ever.
  setenv("OMPI_MCA_orte_leave_session_attached", "1", 0);
  // A host that vanishes without a word is noticed after 8 minutes otherwise.
  setenv("OMPI_MCA_oob_tcp_keepalive_time", "5", 0);
  setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "1", 0);
  setenv("OMPI_MCA_oob_tcp_keepalive_probes", "3", 0);
}

}  // namespace

JobProcess::JobProcess(const std::vector<std::string>& words, const JobSurroundings& surroundings) {
  std::array<int, 2> errors{}, failure{};
  if (pipe2(errors.data(), O_CLOEXEC) != 0) throw Error(Error::Kind::io, std::string("cannot start the job: ") + std::strerror(errno));
  if (pipe2(failure.data(), O_CLOEXEC) != 0) {
    close(errors[0]);
    close(errors[1]);
    throw Error(Error::Kind::io, std::string("cannot start the job: ") + std::strerror(errno));
  }
  const pid_t supervisor = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != supervisor) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    prepare_environment(surroundings);
    if (const int null = open("/dev/null", O_RDONLY); null >= 0) dup2(null, 0);
    dup2(errors[1], 2);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int reason = errno;
    [[maybe_unused]] const ssize_t told = write(failure[1], &reason, sizeof reason);
    _exit(127);
  }
  const int fork_reason = errno;
  close(errors[1]);
  close(failure[1]);
  errors_ = errors[0];
  int reason = pid_ < 0 ? fork_reason : 0;
  if (pid_ > 0) {
    setpgid(pid_, pid_);
    while (read(failure[0], &reason, sizeof reason) < 0 && errno == EINTR) {}  // ends when exec closes the other side
  }
  close(failure[0]);
  fcntl(errors_, F_SETFL, O_NONBLOCK);
  if (reason == 0) return;
  close(errors_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  throw Error(Error::Kind::io, "cannot start " + words.front() + ": " + std::strerror(reason));
}

JobProcess::~JobProcess() {
  if (!code_) {
    tell_group(SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  if (errors_ >= 0) close(errors_);
}

std::string JobProcess::read_errors() {
  std::string text;
  if (errors_ < 0) return text;
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t n = read(errors_, chunk.data(), chunk.size());
    if (n > 0) {
      text.append(chunk.data(), static_cast<std::size_t>(n));
    } else if (n == 0) {
      close(std::exchange(errors_, -1));
      return text;
    } else if (errno != EINTR) {
      return text;
    }
  }
}

void JobProcess::tell(int signal) const {
  if (!code_) kill(pid_, signal);
}

void JobProcess::tell_group(int signal) const { kill(-pid_, signal); }

std::optional<int> JobProcess::exit_code() {
  int status = 0;
  if (!code_ && waitpid(pid_, &status, WNOHANG) == pid_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

}  // namespace faibench
