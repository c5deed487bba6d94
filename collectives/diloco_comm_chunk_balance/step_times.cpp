// What one synchronisation takes, chunk by chunk, and how much of its messages hides behind packing, adding and applying.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "collectives/diloco_comm_chunk_balance/ranks.h"
#include "collectives/diloco_comm_chunk_balance/step.h"
#include "communicator/communicator.h"

namespace faibench::diloco_comm_chunk_balance {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

StepTimes measure_step(MultiRank::Call& call) {
  constexpr int repeats = 3;
  auto agreed = agreed_plan(call);
  if (const Rejection* const rejection = std::get_if<Rejection>(&agreed)) throw Error(Error::Kind::internal, "measure_step: " + rejection->message);
  const Plan& plan = std::get<Plan>(agreed);
  Communicator& communicator = call.communicator;
  const Step step(call, plan, longest_segment);
  const auto pipelined = [&] { execute_pipelined(step.stages(), Step::depth, communicator, [&](std::size_t, const SumCall& sum) { step.add(sum); }); };
  pipelined();  // memory is touched, connections stand

  const std::size_t chunks = plan.load.size();
  std::vector<double> best(chunks + 3, std::numeric_limits<double>::infinity());  // chunks alone; computing, communication alone, all of it in a pipeline
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<double> own(chunks + 3, 0);
    double &computing = own[chunks], &communication = own[chunks + 1], &wall = own[chunks + 2];
    for (std::size_t k = 0; k < step.stages().size(); ++k) {
      const Stage& stage = step.stages()[k];
      double adding = 0;
      communicator.barrier();
      const double start = now();
      stage.before();
      const double packed = now();
      execute(*stage.schedule, communicator, stage.bases, [&](const SumCall& sum) {
        const double begin = now();
        step.add(sum);
        adding += now() - begin;
      });
      const double summed = now();
      stage.after();
      const double end = now();
      own[static_cast<std::size_t>(step.chunk_of(k))] += end - start;
      computing += packed - start + adding + end - summed;
      communication += summed - packed - adding;
    }
    communicator.barrier();
    const double start = now();
    pipelined();
    wall = now() - start;
    communicator.all_reduce(own.data(), own.data(), static_cast<std::int64_t>(own.size()), Dtype::f64, Reduce::max);
    for (std::size_t i = 0; i < own.size(); ++i) best[i] = std::min(best[i], own[i]);
  }

  StepTimes times;
  times.chunk_seconds.assign(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(chunks));
  times.chunk_bytes = plan.load;
  times.slowest = static_cast<std::int64_t>(std::ranges::max_element(times.chunk_seconds) - times.chunk_seconds.begin());
  times.compute_seconds = best[chunks];
  times.communication_seconds = best[chunks + 1];
  times.wall_seconds = best[chunks + 2];
  if (times.communication_seconds > 0) times.overlap = 1 - (times.wall_seconds - times.compute_seconds) / times.communication_seconds;
  return times;
}

std::string report_step(MultiRank::Call& call) {
  constexpr std::size_t most = 64;  // chunks listed
  if (call.communicator.size() == 1) return "one rank: nothing to synchronise";
  const StepTimes times = measure_step(call);
  const auto ms = [](double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", 1e3 * seconds);
    return std::string(text);
  };
  std::string chunks;
  for (std::size_t c = 0; c < std::min(most, times.chunk_seconds.size()); ++c) chunks += (c == 0 ? "" : " ") + ms(times.chunk_seconds[c]);
  if (times.chunk_seconds.size() > most) chunks += " ...";
  const auto slowest = static_cast<std::size_t>(times.slowest);
  char overlap[32];
  std::snprintf(overlap, sizeof overlap, "%.2f", times.overlap);
  return "chunks alone, ms: " + chunks + "; slowest chunk " + std::to_string(slowest) + " of " + std::to_string(times.chunk_bytes[slowest]) + " bytes: " + ms(times.chunk_seconds[slowest]) + " ms; step " +
         ms(times.wall_seconds) + " ms, computing " + ms(times.compute_seconds) + ", communication alone " + ms(times.communication_seconds) + ": overlap " + overlap;
}

}  // namespace faibench::diloco_comm_chunk_balance
