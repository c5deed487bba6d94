#include "judge/confinement.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace faibench {
namespace {

// Without capabilities root is a user like any other: it may not look into a process that is not dumpable, as the judge is not.
void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
}

// A Landlock domain that restricts next to nothing on the file system still cuts off /proc/PID/mem, /proc/PID/fd and ptrace of processes outside it and,
// from Linux 6.12 on, signals to them. The attribute is spelled out: the system's headers may be older than its kernel.
void enter_domain() {
  constexpr int create_ruleset = 444, restrict_self = 446;
  constexpr std::uint32_t version_flag = 1;
  constexpr std::uint64_t make_block_device = 1u << 11, scope_signal = 1u << 1;
  struct {
    std::uint64_t handled_files, handled_network, scoped;
  } attribute{make_block_device, 0, 0};
  const long version = syscall(create_ruleset, nullptr, 0, version_flag);
  if (version < 1) return;
  std::size_t size = 8;
  if (version >= 6) {
    attribute.scoped = scope_signal;
    size = sizeof attribute;
  }
  const int ruleset = static_cast<int>(syscall(create_ruleset, &attribute, size, 0));
  if (ruleset < 0) return;
  syscall(restrict_self, ruleset, 0);
  close(ruleset);
}

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#endif

struct Filter {
  std::vector<sock_filter> code;

  static sock_filter load(std::size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  static sock_filter give(std::uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
  static sock_filter skip_unless(std::uint32_t value, std::uint8_t steps) { return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, steps); }
  static constexpr std::uint32_t deny = SECCOMP_RET_ERRNO | EPERM;

  void refuse(long call) {
    code.push_back(skip_unless(static_cast<std::uint32_t>(call), 1));
    code.push_back(give(deny));
  }
  // Refuses `call` unless its first argument (its low half: pids and options are ints) is one of two values.
  void refuse_unless(long call, std::uint32_t a, std::uint32_t b) {
    code.push_back(skip_unless(static_cast<std::uint32_t>(call), 5));
    code.push_back(load(offsetof(seccomp_data, args[0])));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, a, 1, 0));
    code.push_back(skip_unless(b, 1));
    code.push_back(give(SECCOMP_RET_ALLOW));
    code.push_back(give(deny));
  }
  void refuse_if(long call, std::uint32_t first) {
    code.push_back(skip_unless(static_cast<std::uint32_t>(call), 4));
    code.push_back(load(offsetof(seccomp_data, args[0])));
    code.push_back(skip_unless(first, 1));
    code.push_back(give(deny));
    code.push_back(give(SECCOMP_RET_ALLOW));
  }
};

void filter_calls() {
  const std::uint32_t self = static_cast<std::uint32_t>(getpid());
  Filter filter;
  filter.code = {Filter::load(offsetof(seccomp_data, arch)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, architecture, 1, 0), Filter::give(Filter::deny),
                 Filter::load(offsetof(seccomp_data, nr))};
  for (long call : {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pidfd_getfd, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
                    SYS_setsid, SYS_setpgid, SYS_setpriority, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_ioprio_set, SYS_unshare, SYS_setns, SYS_mount, SYS_umount2,
                    SYS_chroot, SYS_pivot_root, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd})
    filter.refuse(call);
  filter.refuse_unless(SYS_kill, self, self);
  filter.refuse_unless(SYS_tgkill, self, self);  // raise() and abort()
  filter.refuse_unless(SYS_prlimit64, 0, self);
  filter.refuse_if(SYS_prctl, PR_SET_PDEATHSIG);  // it dies with its judge
  filter.code.push_back(Filter::give(SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(filter.code.size()), filter.code.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace

void confine_submission() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // both layers below ask for it
  drop_capabilities();
  enter_domain();
  filter_calls();
}

}  // namespace faibench
