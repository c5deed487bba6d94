#include "cluster/watchdog.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "launch/launcher_words.h"
#include "launch/sweep.h"

namespace faibench {
namespace {

constexpr int most_writes_a_second = 64;  // of all ranks together: their folder may lie on a file system that all share
constexpr double longest_beat = 15;
constexpr double next_grace_seconds = 10;  // for a rank to speak for itself

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double beat_of(int ranks) { return std::clamp(static_cast<double>(ranks) / most_writes_a_second, 1.0, longest_beat); }

// In a hang all ranks expire at about the same time; the lowest speaks for all unless it is the one that is gone.
double grace_of(int rank) { return rank == 0 ? 0 : std::min(3 + 0.05 * rank, 8.0); }

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

Watchdog::Watchdog(int rank, int ranks, std::string host, double hang_after_seconds, std::function<void(const std::string&)> expired)
    : ranks_(ranks), deadlines_(hang_after_seconds), expired_(std::move(expired)),
      self_(hang_after_seconds, grace_of(rank), 2 * beat_of(ranks)), next_(hang_after_seconds, next_grace_seconds, 2 * beat_of(ranks)) {
  stamp_.job = variable(job_variable);
  stamp_.rank = rank;
  stamp_.host = std::move(host);
  stamp_.pid = static_cast<int>(getpid());
  stamp_.phase = "start-up";
  stamp_.deadline_seconds = deadlines_.start_up;
  stamp_.beat_seconds = beat_of(ranks);
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (file_ >= 0) close(file_);
}

void Watchdog::enter(const std::string& phase, double deadline_seconds, const std::string& item, const std::string& detail) {
  const std::lock_guard lock(mutex_);
  ++stamp_.steps;
  stamp_.deadline_seconds = deadline_seconds;
  if (stamp_.phase != phase) stamp_.phase = phase;
  if (stamp_.detail != detail) stamp_.detail = detail;
  if (stamp_.item == item) return;
  stamp_.item = item;
  changed_.notify_all();  // what is in flight is on disk at once: it may be this that ends the rank
}

void Watchdog::publish(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  folder_ = folder;
  changed_.notify_all();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  std::string written_item;
  double next_beat = 0;
  while (!leaving_) {
    const double time = now();
    if (time >= next_beat || stamp_.item != written_item) {
      if (time >= next_beat) next_beat = time + stamp_.beat_seconds;
      ++stamp_.beats;
      written_item = stamp_.item;
      const Stamp stamp = stamp_;
      lock.unlock();
      write(stamp);
      check_self(stamp, time);
      check_next(time);
      lock.lock();
    }
    const auto until = std::chrono::duration<double>(std::max(0.01, next_beat - now()));
    changed_.wait_for(lock, until, [&] { return leaving_ || stamp_.item != written_item || (!folder_.empty() && file_ == -1); });
    if (!folder_.empty() && file_ == -1) {
      file_ = open(stamp_path(folder_, stamp_.rank).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      if (file_ < 0) file_ = -2;  // not again
      written_item = "\n";        // now
    }
  }
}

void Watchdog::write(const Stamp& stamp) {
  if (file_ < 0) return;
  const std::string text = to_text(stamp);
  if (pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return;
  // A stamp that stands still would be taken for a rank that does: better none.
  close(file_);
  file_ = -2;
  std::error_code ignored;
  std::filesystem::remove(stamp_path(folder_, stamp.rank), ignored);
}

void Watchdog::check_self(const Stamp& stamp, double now_seconds) {
  const auto still = self_.look({{stamp.rank, stamp}}, now_seconds);
  if (!still || spoke_) return;
  const std::string silent = silent_ranks();
  speak(silent.empty() ? "rank " + std::to_string(stamp.rank) + " on " + stamp.host + " " + still->how : silent + "; rank " + std::to_string(stamp.rank) + " on " + stamp.host + " waits: " + still->how);
}

void Watchdog::check_next(double now_seconds) {
  if (file_ < 0 || ranks_ == 1 || spoke_) return;
  const int next = (stamp_.rank + 1) % ranks_;
  std::map<int, Stamp> theirs;
  if (auto stamp = read_stamp(folder_, next); stamp && stamp->job == stamp_.job) theirs.emplace(next, std::move(*stamp));
  if (const auto still = next_.look(theirs, now_seconds)) speak("rank " + std::to_string(next) + " on " + still->host + " " + still->how);
}

void Watchdog::speak(const std::string& line) {
  spoke_ = true;
  expired_(std::string(stuck_words) + line + "; what was judged is kept (--resume)");
}

// Whose watchdog stands still too: that rank is the cause, and the others wait for it.
std::string Watchdog::silent_ranks() {
  if (file_ < 0) return {};
  const auto before = read_stamps(folder_, stamp_.job);
  std::this_thread::sleep_for(std::chrono::duration<double>(2.5 * beat_of(ranks_)));
  for (const auto& [rank, stamp] : read_stamps(folder_, stamp_.job)) {
    const auto earlier = before.find(rank);
    if (rank != stamp_.rank && earlier != before.end() && earlier->second.beats == stamp.beats) return "rank " + std::to_string(rank) + " on " + stamp.host + " shows no sign of life, last seen in " + describe_phase(stamp);
  }
  return {};
}

}  // namespace faibench
