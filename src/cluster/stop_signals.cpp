#include "cluster/stop_signals.h"

namespace faibench {
namespace {

constexpr int watched[] = {SIGINT, SIGTERM, SIGUSR1};
volatile std::sig_atomic_t noted = 0;

extern "C" void note_signal(int signal) {
  if (noted == 0) noted = signal;
}

}  // namespace

StopSignals::StopSignals() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  // No SA_RESTART: the loop's poll() wakes up. Reset: a second Ctrl-C must end a program that does not answer. (Slurm repeats its warning: that one stays noted.)
  for (std::size_t i = 0; i < std::size(watched); ++i) {
    action.sa_flags = watched[i] == SIGUSR1 ? 0 : static_cast<int>(SA_RESETHAND);
    sigaction(watched[i], &action, &before_[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < std::size(watched); ++i) sigaction(watched[i], &before_[i], nullptr);
}

int StopSignals::received() { return noted; }

std::string stop_signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "signal " + std::to_string(signal);
  }
}

int exit_code_of_signal(int signal) { return signal == SIGUSR1 ? 1 : 128 + signal; }

}  // namespace faibench
