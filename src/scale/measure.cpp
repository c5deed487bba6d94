#include "scale/measure.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>

namespace faibench::scale {
namespace {

constexpr int trips = 100, clock_rounds = 5;
constexpr std::int64_t check_every = 512;        // samples between two checks of the result
constexpr double most_tolerated = 1e-4;          // seconds past the start instant, where every rank has a core
constexpr double most_ahead = 2e-3;              // seconds from which the start instant is not moved farther: about a turn of the scheduler
constexpr std::int64_t most_recent = 10;         // samples after which the start instant may move farther away
constexpr double stream_seconds = 0.004;         // of one series of calls back to back: a turn of the scheduler
constexpr std::int64_t most_streamed = 10000;

// Maxima over the ranks, the same bits everywhere.
std::vector<double> highest(Communicator& communicator, std::vector<double> values) {
  std::vector<double> result(values.size());
  communicator.all_reduce(values.data(), result.data(), static_cast<std::int64_t>(values.size()), Dtype::f64, Reduce::max);
  return result;
}

std::vector<std::vector<double>> gather(Communicator& communicator, const std::vector<double>& own) {
  const auto count = static_cast<std::int64_t>(own.size());
  if (communicator.rank() != 0) {
    if (count > 0) communicator.send(own.data(), count, Dtype::f64, 0);
    return {};
  }
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(communicator.size()), own);
  for (int from = 1; count > 0 && from < communicator.size(); ++from) communicator.receive(rows[static_cast<std::size_t>(from)].data(), count, Dtype::f64, from);
  return rows;
}

// What all ranks know of samples.
struct Series {
  std::vector<double> seconds, clock, arrival, leaving, transfer, own_enter, own_exit;
  [[nodiscard]] std::size_t size() const { return seconds.size(); }
};

// How often this thread lost its core to another one.
std::int64_t lost_turns() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// Samples in which no rank lost its core, and the others: these count only where the first are too few, and then it is said.
struct Kept {
  static constexpr std::size_t enough = 8;
  Series whole, disturbed;
  /// After settle().
  [[nodiscard]] const Series& counted() const { return both.size() > 0 ? both : whole; }
  void settle(ScalingRow& row) {
    const std::size_t lost = disturbed.size(), all = lost + whole.size();
    if (whole.size() >= enough || lost == 0) {
      row.invalid += static_cast<std::int64_t>(lost);
      return;
    }
    for (auto member : {&Series::seconds, &Series::clock, &Series::arrival, &Series::leaving, &Series::transfer, &Series::own_enter, &Series::own_exit}) {
      auto& into = both.*member;
      into = whole.*member;
      into.insert(into.end(), (disturbed.*member).begin(), (disturbed.*member).end());
    }
    row.flags.push_back("lost_turns:" + std::to_string(100 * lost / all) + "%");
  }
  Series both;
};

void fill(const Series& series, const GlobalClock& clock, Communicator& communicator, ScalingRow& row) {
  const Summary s = summarize(series.seconds, series.clock);
  row.samples = s.count;
  row.seconds = s.median;
  row.low = s.low;
  row.high = s.high;
  row.p90 = s.p90;
  row.p99 = s.p99.value_or(0);
  row.least = s.min;
  row.most = s.max;
  row.dispersion = s.dispersion;
  row.arrival_skew = median_of(series.arrival);
  row.exit_skew = median_of(series.leaving);
  row.transfer = median_of(series.transfer);
  row.clock_error = highest(communicator, {clock.error})[0];
  if (s.bimodal) row.flags.push_back("bimodal");
  if (s.drifting) row.flags.push_back("drifting");
  if (s.outlier_share > 0.01) row.flags.push_back("outliers:" + std::to_string(static_cast<int>(std::lround(100 * s.outlier_share))) + "%");
  if (s.bursts > 0) row.flags.push_back("bursts:" + std::to_string(s.bursts));
  if (row.cadence == "isolated" && !tells(row.seconds, row.clock_error)) row.flags.push_back("below_clock_error");
  row.enter = gather(communicator, series.own_enter);
  row.exit = gather(communicator, series.own_exit);
}

bool wrong(const Calls& calls, ScalingRow& row) {
  const auto fault = calls.check();
  row.verdict = fault ? "wrong" : "passed";
  row.detail = fault.value_or("");
  return fault.has_value();
}

void prepare(const Calls& calls) {
  if (calls.prepare) calls.prepare();
}

// Until times are stable, at least 6 calls, at most a quarter of the cell's time; then a barrier.
double warm_up(Communicator& communicator, const Calls& calls, const MeasureOptions& options) {
  std::vector<double> seconds;
  const double start = own_clock();
  for (;;) {
    prepare(calls);
    own_barrier(communicator);
    const double enter = own_clock();
    calls.run();
    const double now = own_clock();
    const auto most = highest(communicator, {now - enter, now - start});
    seconds.push_back(most[0]);
    if (warmed_up(seconds) || (most[1] > options.stop.cap_seconds / 4 && seconds.size() > 1)) break;
  }
  own_barrier(communicator);
  return median_of(seconds);
}

// What the start instant takes to reach all ranks. A low one of several: whoever was kept off its core meanwhile would make ranks pass for timely that were kept off it too.
// With more ranks than cores that is everyone, and the median counts.
double start_distance(Communicator& communicator, bool oversubscribed) {
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    double instant = own_clock();
    const double before = instant;
    communicator.broadcast(&instant, 1, Dtype::f64, 0);
    own_barrier(communicator);
    times.push_back(highest(communicator, {own_clock() - before})[0]);
  }
  std::sort(times.begin(), times.end());
  return std::max(quantile(times, oversubscribed ? 0.5 : 0.1), 2e-6);
}

}  // namespace

double own_clock() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

GlobalClock synchronise(Communicator& communicator, double seconds) {
  std::vector<Offset> offsets;
  const NodeMap& nodes = communicator.nodes();
  for (int peer = 1; peer < communicator.size(); ++peer) {
    if (nodes.same_node(0, peer)) continue;
    for (int round = 0; round < clock_rounds; ++round) {
      std::vector<RoundTrip> found;
      for (int i = 0; i < trips; ++i) {
        double keeper = 0;
        if (communicator.rank() == 0) {
          communicator.receive(&keeper, 1, Dtype::f64, peer);
          keeper = own_clock();
          communicator.send(&keeper, 1, Dtype::f64, peer);
        } else if (communicator.rank() == peer) {
          RoundTrip trip{.sent = own_clock()};
          communicator.send(&keeper, 1, Dtype::f64, 0);
          communicator.receive(&trip.keeper, 1, Dtype::f64, 0);
          trip.back = own_clock();
          found.push_back(trip);
        }
      }
      if (communicator.rank() == peer) offsets.push_back(offset_of(found));
      if (communicator.rank() == 0 || communicator.rank() == peer) {
        const timespec pause{0, static_cast<long>(std::min(0.9, seconds / clock_rounds) * 1e9)};
        nanosleep(&pause, nullptr);
      }
    }
  }
  return offsets.empty() ? GlobalClock{} : fit_clock(offsets);
}

void own_barrier(Communicator& communicator) {
  const int size = communicator.size(), rank = communicator.rank();
  for (int step = 1; step < size; step *= 2) {
    char token = 1, other = 0;
    const Outgoing out[] = {{&token, 1, (rank + step) % size}};
    const Incoming in[] = {{&other, 1, (rank + size - step) % size}};
    communicator.start_exchange(out, in, Dtype::u8)->wait();
  }
}

void measure_isolated(Communicator& communicator, const GlobalClock& clock, const Calls& calls, const MeasureOptions& options, ScalingRow& row) {
  if (options.check_first && wrong(calls, row)) return;
  const double cell_start = own_clock();
  warm_up(communicator, calls, options);
  const double distance = start_distance(communicator, options.yields), tolerance = options.yields ? distance : std::min(distance, most_tolerated);
  double k = 2;
  Kept kept;
  std::int64_t made = 0, recent = 0, recent_invalid = 0;
  for (const char* reason = "";;) {
    prepare(calls);
    own_barrier(communicator);
    double instant = clock.global(own_clock()) + k * distance;
    communicator.broadcast(&instant, 1, Dtype::f64, 0);
    bool late = clock.global(own_clock()) > instant;
    while (clock.global(own_clock()) < instant) {
      if (options.yields) sched_yield();
    }
    const std::int64_t turns = lost_turns();
    const double enter = clock.global(own_clock());
    calls.run();
    const double exit = clock.global(own_clock());
    const bool lost = lost_turns() != turns;
    // Who was held up between the spin and the call would be counted as slow.
    late = late || enter > instant + tolerance;
    const auto all = highest(communicator, {late ? 1.0 : 0.0, enter, -enter, exit, -exit, communicator.rank() == 0 ? own_clock() - cell_start : 0.0, lost ? 1.0 : 0.0});
    ++made;
    ++recent;
    Series& series = all[6] > 0 ? kept.disturbed : kept.whole;
    if (all[0] > 0) {
      ++row.invalid;
      ++recent_invalid;
    } else {
      series.seconds.push_back(all[3] + all[2]);
      series.clock.push_back(-all[2]);
      series.arrival.push_back(all[1] + all[2]);
      series.leaving.push_back(all[3] + all[4]);
      series.transfer.push_back(all[3] - all[1]);
      series.own_enter.push_back(enter - instant);
      series.own_exit.push_back(exit - instant);
    }
    if (recent == most_recent) {
      if (2 * recent_invalid > recent && k * distance < most_ahead) k *= recent_invalid == recent ? 8 : 2;
      recent = recent_invalid = 0;
    }
    reason = options.stop.decide(kept.whole.seconds, all[5]);
    if (*reason) {
      row.stop_reason = reason;
      break;
    }
    if (made % check_every == 0 && wrong(calls, row)) return;
  }
  if (wrong(calls, row)) return;
  if (kept.whole.size() + kept.disturbed.size() == 0) {
    row.verdict = "late";
    row.detail = "a rank missed the start instant of each of " + std::to_string(made) + " samples";
    return;
  }
  const bool mostly_late = 2 * row.invalid > made;
  kept.settle(row);
  fill(kept.counted(), clock, communicator, row);
  if (mostly_late) row.flags.push_back("mostly_late");
}

void measure_streaming(Communicator& communicator, const GlobalClock& clock, const Calls& calls, const MeasureOptions& options, ScalingRow& row) {
  if (options.check_first && wrong(calls, row)) return;
  const double cell_start = own_clock();
  const double one = highest(communicator, {warm_up(communicator, calls, options)})[0];
  const auto count = std::clamp<std::int64_t>(static_cast<std::int64_t>(stream_seconds / std::max(one, 1e-9)), 1, most_streamed);
  row.calls = count;
  Kept kept;
  for (std::int64_t made = 1;; ++made) {
    prepare(calls);
    own_barrier(communicator);
    const std::int64_t turns = lost_turns();
    const double enter = clock.global(own_clock());
    for (std::int64_t i = 0; i < count; ++i) calls.run();
    const double exit = clock.global(own_clock());
    const bool lost = lost_turns() != turns;
    const auto all = highest(communicator, {enter, -enter, exit, -exit, communicator.rank() == 0 ? own_clock() - cell_start : 0.0, lost ? 1.0 : 0.0});
    Series& series = all[5] > 0 ? kept.disturbed : kept.whole;
    const auto n = static_cast<double>(count);
    series.seconds.push_back((all[2] + all[1]) / n);
    series.clock.push_back(-all[1]);
    series.arrival.push_back((all[0] + all[1]) / n);
    series.leaving.push_back((all[2] + all[3]) / n);
    series.transfer.push_back((all[2] - all[0]) / n);
    series.own_enter.push_back(enter + all[1]);
    series.own_exit.push_back(exit + all[1]);
    if (const char* reason = options.stop.decide(kept.whole.seconds, all[4]); *reason) {
      row.stop_reason = reason;
      break;
    }
    if (made % check_every == 0 && wrong(calls, row)) return;
  }
  if (wrong(calls, row)) return;
  kept.settle(row);
  fill(kept.counted(), clock, communicator, row);
}

}  // namespace faibench::scale
