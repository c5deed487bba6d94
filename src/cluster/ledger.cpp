#include "cluster/ledger.h"

#include <chrono>
#include <set>

#include "tensor/error.h"

namespace faibench {
namespace {

constexpr const char* lost_suffix = ":lost";
constexpr double fold_every_seconds = 3;

void make_folder_of(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(Error::Kind::io, folder.string() + ": cannot make the folder of the result file: " + error.message());
}

Journal rebuild(const std::filesystem::path& run_file, const std::filesystem::path& journal) {
  const RunContents contents = read_run_file(run_file);
  Journal made = Journal::create(journal, contents.provenance, false);
  for (const Record& record : contents.records) made.append(record);
  return made;
}

}  // namespace

Ledger Ledger::create(const std::filesystem::path& run_file, const Provenance& provenance, bool force) {
  if (run_file.extension() == ".jsonl") throw Error(Error::Kind::bad_input, run_file.string() + ": a result file is named *.h5; its journal takes *.jsonl");
  const auto journal = journal_path(run_file);
  if (!force) {
    for (const auto& file : {run_file, journal}) {
      std::error_code error;
      if (std::filesystem::exists(file, error)) {
        throw Error(Error::Kind::bad_input, file.string() + " exists: take another --out, --resume it to go on with it, or --force to overwrite it");
      }
    }
  }
  make_folder_of(run_file);
  return {run_file, Journal::create(journal, provenance, force)};
}

Ledger Ledger::resume(const std::filesystem::path& run) {
  const auto run_file = run.extension() == ".jsonl" ? std::filesystem::path(run).replace_extension(".h5") : run;
  const auto journal = journal_path(run_file);
  std::error_code error;
  if (std::filesystem::exists(journal, error)) return {run_file, Journal::resume(journal)};
  if (std::filesystem::exists(run_file, error)) return {run_file, rebuild(run_file, journal)};
  throw Error(Error::Kind::bad_input, run.string() + ": there is no such run to resume (neither " + run_file.filename().string() + " nor " + journal.filename().string() + ")");
}

std::vector<Record> Ledger::records() const {
  std::set<std::string> judged;
  for (const Record& record : journal_.records()) judged.insert(record.key);
  std::vector<Record> shown;
  for (const Record& record : journal_.records()) {
    if (record.key.ends_with(lost_suffix) && judged.contains(record.key.substr(0, record.key.size() - std::string_view(lost_suffix).size()))) continue;
    shown.push_back(record);
  }
  return shown;
}

Error Ledger::with_way_out(const Error& error) const {
  const std::size_t safe = journal_.records().size();
  return {error.kind, std::string(error.what()) + "; " + std::to_string(safe) + (safe == 1 ? " verdict is" : " verdicts are") + " safe in " + journal_.path().string() +
                          ": make room and go on with --resume " + run_file_.string()};
}

void Ledger::append(Record record) {
  if (record.verdict == Verdict::lost) {
    record.key += lost_suffix;
    if (holds(record.key)) return;  // lost before, lost again
  }
  try {
    journal_.append(record);
  } catch (const Error& e) {
    throw with_way_out(e);
  }
  changed_ = true;
}

void Ledger::update(const Provenance& provenance) {
  journal_.update_provenance(provenance);
  changed_ = true;
}

void Ledger::fold() {
  const auto start = std::chrono::steady_clock::now();
  try {
    write_run_file(run_file_, journal_.provenance(), records());
  } catch (const Error& e) {
    throw with_way_out(e);
  }
  fold_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  changed_ = false;
}

void Ledger::fold_if_due(double now_seconds) {
  if (!changed_ || now_seconds - folded_at_ < std::max(fold_every_seconds, 50 * fold_seconds_)) return;
  fold();
  folded_at_ = now_seconds;
}

}  // namespace faibench
