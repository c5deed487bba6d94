#include "cluster/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>

namespace faibench {
namespace {

std::string left_text(const Progress::Standing& standing) {
  return standing.seconds_left > 0 && standing.done < standing.total ? "about " + duration_text(standing.seconds_left) + " left" : "";
}

class SilentProgress final : public Progress {
 public:
  void started(const std::string&, const Standing&) override {}
  void verdict(const std::string&, const Record&, const Standing&) override {}
  void stage(int, const std::string&, const std::string&) override {}
  void tick(const Standing&) override {}
  void notice(const std::string&) override {}
  void close() override {}
};

// A line an event, for logs.
class LineProgress final : public Progress {
 public:
  explicit LineProgress(std::FILE* out) : out_(out) {}
  void started(const std::string& what, const Standing& standing) override { print(what + (left_text(standing).empty() ? "" : ", " + left_text(standing))); }
  void verdict(const std::string& label, const Record& record, const Standing& standing) override {
    const std::string left = left_text(standing);
    print(fmt::format("[{}/{}] {}  ({}, {:.1f} s){}", standing.done, standing.total, verdict_line(label, record), record.ranks > 1 ? fmt::format("{} ranks", record.ranks) : fmt::format("rank {}", record.rank),
                      record.wall_seconds, left.empty() ? "" : "  " + left));
  }
  void stage(int, const std::string&, const std::string&) override {}
  void tick(const Standing&) override {}
  void notice(const std::string& line) override { print(line); }
  void close() override {}

 private:
  void print(const std::string& line) {
    fmt::print(out_, "faibench: {}\n", line);
    std::fflush(out_);
  }
  std::FILE* out_;
};

// One line at the bottom that is drawn anew; verdicts scroll above it.
class BarProgress final : public Progress {
 public:
  explicit BarProgress(std::FILE* out) : out_(out) {}
  ~BarProgress() override { close(); }
  void started(const std::string& what, const Standing& standing) override {
    above(what);
    draw(standing);
  }
  void verdict(const std::string& label, const Record& record, const Standing& standing) override {
    stages_.erase(record.rank);
    const char* color = record.verdict == Verdict::passed ? "\x1b[32m" : record.verdict == Verdict::noisy ? "\x1b[33m" : "\x1b[31m";
    above(color + verdict_line(label, record) + "\x1b[0m");
    draw(standing);
  }
  void stage(int rank, const std::string& label, const std::string& stage) override { stages_[rank] = label + ": " + stage; }
  void tick(const Standing& standing) override {
    const auto now = std::chrono::steady_clock::now();
    if (now - drawn_ > std::chrono::milliseconds(250)) draw(standing);
  }
  void notice(const std::string& line) override { above("faibench: " + line); }
  void close() override {
    if (on_screen_) fmt::print(out_, "\r\x1b[K");
    on_screen_ = false;
    std::fflush(out_);
  }

 private:
  int columns() const {
    winsize size{};
    return ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
  }
  void above(const std::string& line) {
    close();
    fmt::print(out_, "{}\n", line);
    std::fflush(out_);
  }
  void draw(const Standing& standing) {
    constexpr int width = 24;
    const int filled = standing.total > 0 ? static_cast<int>(width * standing.done / standing.total) : width;
    std::string line = fmt::format("[{}{}] {}/{}  {} running  {}", std::string(static_cast<std::size_t>(filled), '#'), std::string(static_cast<std::size_t>(width - filled), '.'),
                                   standing.done, standing.total, standing.running, left_text(standing));
    if (!stages_.empty()) line += "  " + stages_.begin()->second;
    line.resize(std::min(line.size(), static_cast<std::size_t>(columns() - 1)));
    fmt::print(out_, "\r\x1b[K{}", line);
    std::fflush(out_);
    on_screen_ = true;
    drawn_ = std::chrono::steady_clock::now();
  }

  std::FILE* out_;
  std::map<int, std::string> stages_;
  bool on_screen_ = false;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 120) return fmt::format("{} s", std::max<std::int64_t>(whole, 1));
  if (whole < 7200) return fmt::format("{} min", (whole + 30) / 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string verdict_line(const std::string& label, const Record& record) {
  std::string line = fmt::format("{:<7} {}", name_of(record.verdict), label);
  if (record.verdict != Verdict::passed) {
    if (!record.reason.empty()) line += fmt::format("  ({})", record.reason);
    return record.detail.empty() ? line : line + "  " + record.detail;
  }
  if (record.speedup > 0) line += fmt::format("  {:.4g}x [{:.4g}, {:.4g}]", record.speedup, record.speedup_low, record.speedup_high);
  line += record.emulated ? "  emulated, not scored" : record.variant.starts_with("peer:") ? "  peer, not scored" : fmt::format("  score {:.3f}", record.score);
  return record.note.empty() ? line : line + "  (" + record.note + ")";
}

std::unique_ptr<Progress> make_progress(std::FILE* out, bool quiet, bool moving) {
  if (quiet) return std::make_unique<SilentProgress>();
  if (moving && isatty(fileno(out))) return std::make_unique<BarProgress>(out);
  return std::make_unique<LineProgress>(out);
}

}  // namespace faibench
