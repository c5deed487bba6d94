#include "hdf5/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "tensor/error.h"

namespace faibench::hdf5 {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<std::string()>& read, QuarantineLimits limits = {}) {
  try {
    in_quarantine(read, limits);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::bad_input);
    return e.what();
  }
  return "no error";
}

TEST(Quarantine, hands_back_what_was_read) {
  EXPECT_EQ(in_quarantine([] { return std::string("a\0b", 3); }), std::string("a\0b", 3));
  EXPECT_EQ(in_quarantine([] { return std::string(); }), "");
  const std::string large(10'000'000, 'x');
  EXPECT_EQ(in_quarantine([&] { return large; }), large);
}

TEST(Quarantine, lets_errors_through) {
  try {
    in_quarantine([]() -> std::string { throw Error(Error::Kind::io, "a reason"); });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::io);
    EXPECT_STREQ(e.what(), "a reason");
  }
}

TEST(Quarantine, survives_a_crash) {
  EXPECT_EQ(error_of([]() -> std::string {
              ::raise(SIGSEGV);
              return "not reached";
            }),
            "damaged: the HDF5 library fails on it (Segmentation fault)");
  EXPECT_THAT(error_of([]() -> std::string { std::abort(); }), HasSubstr("(Aborted)"));
  EXPECT_THAT(error_of([]() -> std::string { ::_exit(0); }), HasSubstr("(no answer)"));
}

TEST(Quarantine, ends_what_does_not_end) {
  EXPECT_EQ(error_of([]() -> std::string { for (;;) ::pause(); }, {.seconds = 0.05}), "damaged: the HDF5 library does not come to an end on it");
}

TEST(Quarantine, refuses_endless_memory) {
  EXPECT_EQ(error_of([]() -> std::string { throw std::bad_alloc(); }), "damaged: asks for more memory than a file of its size can need");
}

TEST(Quarantine, reads_again_when_its_reader_is_killed_from_outside) {
  auto* tries = static_cast<int*>(mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto killed_times = [&](int times) {
    *tries = 0;
    return in_quarantine([=] {
      if (++*tries <= times) raise(SIGKILL);
      return std::string("read");
    });
  };
  EXPECT_EQ(killed_times(2), "read");
  EXPECT_EQ(*tries, 3);
  try {
    killed_times(99);
    FAIL() << "read by nobody";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::io) << "the file is not to blame";
  }
  munmap(tries, sizeof(int));
}

TEST(Quarantine, changes_nothing_here_and_leaves_no_process) {
  int touched = 0;
  in_quarantine([&] {
    touched = 1;
    return std::string();
  });
  EXPECT_EQ(touched, 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(Quarantine, prints_nothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  in_quarantine([] {
    [[maybe_unused]] const auto put = ::write(STDERR_FILENO, "noise", 5) + ::write(STDOUT_FILENO, "noise", 5);
    return std::string();
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Quarantine, does_not_need_to_be_the_one_who_reaps) {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;  // the kernel reaps at once: waitpid finds no child
  ::sigaction(SIGCHLD, &ignore, &before);
  EXPECT_EQ(in_quarantine([] { return std::string("whole"); }), "whole");
  ::sigaction(SIGCHLD, &before, nullptr);
}

}  // namespace
}  // namespace faibench::hdf5
