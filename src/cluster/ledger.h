// What was judged, on disk at once: the journal first, the result file from it every few seconds.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "results/journal.h"
#include "results/run_file.h"

namespace faibench {

/// The coordinator's alone. Every error says which file, why, and that the journal keeps what was judged.
class Ledger {
 public:
  /// A new run at `run_file` (its folder is made). Throws Error(bad_input) where it or its journal exists and `force` is not set, Error(io) where it cannot be written.
  static Ledger create(const std::filesystem::path& run_file, const Provenance& provenance, bool force);
  /// Goes on with RUN.h5 or RUN.jsonl; a journal that is missing is made anew from the result file.
  static Ledger resume(const std::filesystem::path& run);

  [[nodiscard]] bool holds(const std::string& key) const { return journal_.find(key) != nullptr; }
  /// What a reader is shown: all records, without `lost` ones whose item was judged later.
  [[nodiscard]] std::vector<Record> records() const;
  [[nodiscard]] const Provenance& provenance() const { return journal_.provenance(); }
  [[nodiscard]] const std::filesystem::path& run_file() const { return run_file_; }

  /// Returns when the verdict is on the device. A `lost` verdict is kept under a key of its own, so that a resumed run judges the item again.
  void append(Record record);
  void update(const Provenance& provenance);
  /// Writes the result file from the journal.
  void fold();
  /// The same, if something is new and the last one is long enough ago: folding must not eat a noticeable share of the run.
  void fold_if_due(double now_seconds);

 private:
  Ledger(std::filesystem::path run_file, Journal journal) : run_file_(std::move(run_file)), journal_(std::move(journal)) {}

  [[nodiscard]] Error with_way_out(const Error& error) const;

  std::filesystem::path run_file_;
  Journal journal_;
  bool changed_ = true;
  double folded_at_ = 0, fold_seconds_ = 0;
};

}  // namespace faibench
