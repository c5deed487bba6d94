// A run with one of everything: passed, failed, crashed, skipped, an implementation task, a peer.
#pragma once
#include <string>
#include <vector>

#include "results/provenance.h"
#include "results/record.h"

namespace faibench::testing_support {

inline Record verdict_of(const std::string& task, const std::string& variant, Verdict verdict) {
  Record r;
  r.key = task + variant;
  r.task = task;
  r.group = "group";
  r.variant = variant;
  r.workload = "standard";
  r.verdict = verdict;
  r.ref_speedup = 2.5;
  return r;
}

inline Record passed(const std::string& task, const std::string& variant, double speedup, double score) {
  Record r = verdict_of(task, variant, Verdict::passed);
  r.speedup = speedup;
  r.speedup_low = speedup * 0.97;
  r.speedup_high = speedup * 1.02;
  r.score = score;
  r.seconds = 0.1;
  r.baseline_seconds = 0.1 * speedup;
  r.floor_seconds = 0.05;
  r.blocks = 20;
  return r;
}

inline std::vector<Record> made_up_run() {
  std::vector<Record> records = {passed("coalesced_matrix_transpose", "cpu", 8, 1.0), passed("flash_causal_attn_prefill", "cpu", 2, 0.0),
                                 verdict_of("runtime_arena_memplan", "cpu", Verdict::wrong), verdict_of("p2c_least_loaded_router", "cpu", Verdict::crashed),
                                 verdict_of("compile_cache_key_canon", "cuda", Verdict::skipped), passed("grpo_rloo_advantage", "cpu", 0, 1.0),
                                 passed("coalesced_matrix_transpose", "peer:OpenBLAS", 3, 0.0)};
  records[2].reason = "value";
  records[2].detail = "case ragged: out[3, 7] is 1.5, must be 2.5; the tensor differs in 1 of 64 elements, and this is a long line that has to be wrapped somewhere";
  records[3].reason = "SIGSEGV";
  records[3].stderr_tail = "one\ntwo\nthree\nfour \x1b[31mred\x1b[0m\n\n";
  records[4].reason = "no GPU";
  records[5].performance = false;
  records[5].ref_speedup = 0;
  records[0].asked_variant = "cuda";
  records[0].flags = {"outliers:3"};
  return records;
}

inline Provenance made_up_provenance() {
  Provenance p;
  p.version = "0.1.0";
  p.commit = "0123456789ab";
  p.machine_class = "A Processor <fast>, 2 cores";
  p.started = "2026-01-31T23:59:59Z";
  p.hosts.emplace_back().name = "node1";
  p.hosts[0].copy_bytes_per_second = 2.5e10;
  return p;
}

}  // namespace faibench::testing_support
