#include "judge/job.h"

#include <nlohmann/json.hpp>

#include "tensor/error.h"

namespace faibench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(MachinePeaks, copy_bytes_per_second, cache_copy_bytes_per_second, operations_per_second, most_operations_per_second, handshake_seconds, noise_floor)
NLOHMANN_JSON_SERIALIZE_ENUM(JudgeJob::Kind, {{JudgeJob::Kind::judge, "judge"}, {JudgeJob::Kind::calibrate, "calibrate"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(JudgeJob, kind, task, workload, variant, asked_variant, seed, budget_seconds, call_limit_seconds, memory_limit_bytes, ref_speedup, cpus, gpu, gpu_ranks, gpu_position,
                                                slot_files, whole_task_in_slot, gate_only, emulate, peaks)
namespace {

template <class T>
T parse(std::string_view text, const char* what) {
  try {
    return nlohmann::json::parse(text).get<T>();
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::bad_input, std::string(what) + ": " + e.what());
  }
}

}  // namespace

std::string to_json(const JudgeJob& job) { return nlohmann::json(job).dump(); }
JudgeJob job_from_json(std::string_view text) { return parse<JudgeJob>(text, "judge job"); }
std::string to_json(const MachinePeaks& peaks) { return nlohmann::json(peaks).dump(); }
MachinePeaks peaks_from_json(std::string_view text) { return parse<MachinePeaks>(text, "machine peaks"); }

}  // namespace faibench
