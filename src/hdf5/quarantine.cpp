#include "hdf5/quarantine.h"

#include <fcntl.h>
#include <hdf5.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "tensor/error.h"

namespace faibench::hdf5 {
namespace {

// At the end of what the child leaves: written last, so its presence says that all before it is whole.
struct Trailer {
  char magic[8];
  std::int32_t failed;
  std::int32_t kind;
  std::int64_t bytes;
};
constexpr char trailer_magic[8] = {'q', 'u', 'i', 'e', 't', 'l', 'y', '\n'};

class Descriptor {
 public:
  explicit Descriptor(int raw) : raw_(raw) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return raw_; }
  void reset() {
    if (const int old = std::exchange(raw_, -1); old >= 0) ::close(old);
  }

 private:
  int raw_;
};

[[noreturn]] void fail(std::string_view doing) {
  throw Error(Error::Kind::io, "cannot " + std::string(doing) + " to read the file safely: " + std::generic_category().message(errno));
}

bool write_fully(int descriptor, const void* data, std::size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = ::write(descriptor, p, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    p += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

std::int64_t own_address_space() {
  long pages = 0;
  if (std::FILE* statm = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(statm, "%ld", &pages) != 1) pages = 0;
    std::fclose(statm);
  }
  return static_cast<std::int64_t>(pages) * ::sysconf(_SC_PAGESIZE);
}

void limit(int resource, rlim_t value) {
  struct rlimit now;
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max) value = now.rlim_max;
  now.rlim_cur = value;
  ::setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

[[noreturn]] void run_child(const std::function<std::string()>& read, const QuarantineLimits& limits, pid_t parent, int result) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT}) ::signal(signal, SIG_DFL);  // not the parent's handlers (MPI's print a trace)
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const int silence = ::open("/dev/null", O_WRONLY | O_CLOEXEC); silence >= 0) {  // malloc reports a broken heap on stderr
    ::dup2(silence, STDOUT_FILENO);
    ::dup2(silence, STDERR_FILENO);
  }
  limit(RLIMIT_CORE, 0);
  if (const std::int64_t own = own_address_space(); own > 0) limit(RLIMIT_AS, static_cast<rlim_t>(own + limits.memory_bytes));
  Trailer trailer{};
  std::string bytes;
  try {
    bytes = read();
  } catch (const Error& e) {
    trailer.failed = 1;
    trailer.kind = static_cast<std::int32_t>(e.kind);
    bytes = e.what();
  } catch (const std::bad_alloc&) {
    trailer.failed = 1;
    trailer.kind = static_cast<std::int32_t>(Error::Kind::bad_input);
    bytes = "damaged: asks for more memory than a file of its size can need";
  } catch (const std::exception& e) {
    trailer.failed = 1;
    trailer.kind = static_cast<std::int32_t>(Error::Kind::internal);
    bytes = e.what();
  }
  trailer.bytes = static_cast<std::int64_t>(bytes.size());
  std::memcpy(trailer.magic, trailer_magic, sizeof trailer_magic);
  const bool written = write_fully(result, bytes.data(), bytes.size()) && write_fully(result, &trailer, sizeof trailer);
  ::_exit(written ? 0 : 1);
}

// True when the pipe's other end is closed: the child is gone, however it went.
bool wait_for_end(int pipe, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return false;
    struct pollfd entry = {pipe, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(std::min<long>(left + 1, 1000000))) > 0) return true;
  }
}

std::string take_result(int result, std::string_view death) {
  const off_t size = ::lseek(result, 0, SEEK_END);
  Trailer trailer{};
  const bool whole = size >= static_cast<off_t>(sizeof trailer) &&
                     ::pread(result, &trailer, sizeof trailer, size - static_cast<off_t>(sizeof trailer)) == static_cast<ssize_t>(sizeof trailer) &&
                     std::memcmp(trailer.magic, trailer_magic, sizeof trailer_magic) == 0 && trailer.bytes == size - static_cast<off_t>(sizeof trailer);
  if (!whole) throw Error(Error::Kind::bad_input, "damaged: the HDF5 library fails on it (" + std::string(death) + ")");
  std::string bytes(static_cast<std::size_t>(trailer.bytes), '\0');
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::pread(result, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("take over what was read");
    at += static_cast<std::size_t>(got);
  }
  if (trailer.failed) throw Error(static_cast<Error::Kind>(trailer.kind), bytes);
  return bytes;
}

// One child: the bytes, or nothing if somebody killed it.
std::optional<std::string> attempt(const std::function<std::string()>& read, const QuarantineLimits& limits) {
  Descriptor result(::memfd_create("faibench-quarantine", MFD_CLOEXEC));
  if (result.get() < 0) fail("get memory");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("make a pipe");
  Descriptor ours(ends[0]), theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("start a process");
  if (child == 0) run_child(read, limits, parent, result.get());
  theirs.reset();
  const bool ended = wait_for_end(ours.get(), limits.seconds);
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  pid_t reaped;
  while ((reaped = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {}
  if (!ended) throw Error(Error::Kind::bad_input, "damaged: the HDF5 library does not come to an end on it");
  if (reaped == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return std::nullopt;
  // Somebody else in this process may have reaped the child; then its last words alone decide.
  const std::string death = reaped == child && WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status)) : "no answer";
  return take_result(result.get(), death);
}

}  // namespace

std::string in_quarantine(const std::function<std::string()>& read, QuarantineLimits limits) {
  H5open();  // here once, not in every child
  // No file makes its reader send itself SIGKILL: that came from outside and says nothing about the file.
  constexpr int attempts = 3;
  for (int i = 0; i < attempts; ++i)
    if (auto bytes = attempt(read, limits)) return *std::move(bytes);
  throw Error(Error::Kind::io, "the process that reads it was killed " + std::to_string(attempts) + " times: does this machine run out of memory?");
}

}  // namespace faibench::hdf5
