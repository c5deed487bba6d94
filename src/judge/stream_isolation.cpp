#include "judge/stream_isolation.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "judge/control_page.h"
#include "tensor/error.h"

namespace faibench {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#endif
constexpr std::uint32_t other_numbers = 0x40000000;  // the x32 calls of x86-64: the same calls by other numbers
constexpr std::uint32_t allow = SECCOMP_RET_ALLOW, deny = SECCOMP_RET_ERRNO | EPERM, unknown = SECCOMP_RET_ERRNO | ENOSYS;

/// A program over the number and arguments of a call; the first rule that speaks decides.
class Rules {
 public:
  Rules() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0));
    give(deny);
    load(offsetof(seccomp_data, nr));
    add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, other_numbers, 0, 1));
    give(deny);
  }
  void for_call(long call, std::uint32_t action) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    give(action);
  }
  /// The call gets `action` if its argument has any of these bits; else the rules below decide.
  void if_any_bit(long call, int argument, std::uint32_t bits, std::uint32_t action) { with_argument(call, argument, BPF_JSET, bits, true, action); }
  void unless_any_bit(long call, int argument, std::uint32_t bits, std::uint32_t action) { with_argument(call, argument, BPF_JSET, bits, false, action); }
  void if_equal(long call, int argument, std::uint32_t value, std::uint32_t action) { with_argument(call, argument, BPF_JEQ, value, true, action); }
  void if_above(long call, int argument, std::uint32_t value, std::uint32_t action) { with_argument(call, argument, BPF_JGT, value, true, action); }

  /// For all threads that there are and will be.
  void install(std::uint32_t otherwise) {
    give(otherwise);
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
      throw Error(Error::Kind::internal, "the system cannot keep sender and receiver apart (seccomp filter refused, errno " + std::to_string(errno) + ")");
  }

 private:
  void add(sock_filter step) { code_.push_back(step); }
  void load(std::size_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset))); }
  void give(std::uint32_t action) { add(BPF_STMT(BPF_RET | BPF_K, action)); }
  void with_argument(long call, int argument, std::uint16_t test, std::uint32_t value, bool wanted, std::uint32_t action) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4));
    load(offsetof(seccomp_data, args) + 8 * static_cast<std::size_t>(argument));  // the low half: flags, commands and pids are ints
    add(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), value, static_cast<std::uint8_t>(wanted ? 0 : 1), static_cast<std::uint8_t>(wanted ? 1 : 0)));
    give(action);
    load(offsetof(seccomp_data, nr));
  }

  std::vector<sock_filter> code_;
};

/// Memory that others could see or write to: any shared mapping but the arena.
void refuse_shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.size() < space + 5 || line[space + 4] != 's') continue;
    if (line.find("memfd:faibench-arena") == std::string::npos) throw Error(Error::Kind::bad_input, "a receiver must not share memory: " + line);
  }
}

/// Whatever the library opened is closed, also where it put it in the place of what was there.
void close_descriptors() {
  char target[256];
  const ssize_t length = readlink("/proc/self/fd/2", target, sizeof target);
  const bool own_stderr = length > 0 && std::string_view(target, static_cast<std::size_t>(length)).find("memfd:faibench-candidate-stderr") != std::string_view::npos;
  const int null = open("/dev/null", O_RDWR);
  for (int descriptor : {0, 1, 2})
    if (descriptor != 2 || !own_stderr) dup2(null, descriptor);
  close_range(arena_descriptor, ~0u, 0);  // the arena stays mapped
}

}  // namespace

void forbid_channels() {
  Rules rules;
  constexpr std::uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  rules.if_any_bit(SYS_openat, 2, writing, deny);
#ifdef SYS_open
  rules.if_any_bit(SYS_open, 1, writing, deny);
  for (long call : {SYS_creat, SYS_mkdir, SYS_rmdir, SYS_mknod, SYS_link, SYS_symlink, SYS_rename, SYS_unlink, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_inotify_init,
                    SYS_fork, SYS_vfork})
    rules.for_call(call, deny);
#endif
  for (long call : {SYS_openat2, SYS_mkdirat, SYS_mknodat, SYS_linkat, SYS_symlinkat, SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_truncate, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat,
                    SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_flock, SYS_fallocate,
                    SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen, SYS_accept, SYS_accept4,
                    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop, SYS_mq_open, SYS_mq_unlink,
                    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_inotify_init1, SYS_inotify_add_watch, SYS_fanotify_init, SYS_execve, SYS_execveat, SYS_io_uring_setup})
    rules.for_call(call, deny);
  for (std::uint32_t lock : {F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_NOTIFY}) rules.if_equal(SYS_fcntl, 1, lock, deny);
  rules.unless_any_bit(SYS_clone, 0, CLONE_THREAD, deny);
  rules.for_call(SYS_clone3, unknown);  // its flags lie in memory, where no rule can look: the C library goes on with clone
  rules.install(allow);
}

void forbid_everything_but_memory() {
  refuse_shared_mappings();
  close_descriptors();
  Rules rules;
  for (long call : {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_mlock, SYS_munlock, SYS_membarrier,
                    SYS_clone, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_set_tid_address, SYS_exit, SYS_exit_group, SYS_sched_yield, SYS_gettid, SYS_getpid, SYS_sched_setaffinity,
                    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_tgkill, SYS_restart_syscall,
                    SYS_nanosleep, SYS_clock_nanosleep, SYS_gettimeofday, SYS_getrandom, SYS_getcpu, SYS_uname,
                    SYS_read, SYS_write, SYS_writev, SYS_close, SYS_lseek, SYS_fstat, SYS_prctl})
    rules.for_call(call, allow);
#ifdef SYS_arch_prctl
  rules.for_call(SYS_arch_prctl, allow);
  rules.for_call(SYS_time, allow);
#endif
  rules.if_equal(SYS_sched_getaffinity, 0, 0, allow);
  rules.if_above(SYS_clock_gettime, 0, CLOCK_TAI, deny);  // the others are clocks of single processes
  rules.for_call(SYS_clock_gettime, allow);
  rules.for_call(SYS_clone3, unknown);
  rules.install(deny);
}

}  // namespace faibench
