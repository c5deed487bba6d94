#include "results/run_file.h"

#include <map>
#include <set>
#include <utility>

#include "results/provenance_fields.h"
#include "results/run_layout.h"
#include "results/scaling.h"
#include "results/table.h"

namespace faibench {
namespace {

using hdf5::Id;

// A name as one step of an HDF5 path.
std::string step(const std::string& name) {
  std::string result = hdf5::storable(name);
  for (char& c : result)
    if (c == '/') c = '|';
  return result.empty() || result == "." ? "_" : result;
}

// Where each record's samples go: /samples/<task>/<variant>, with what tells them apart where a task and variant were judged more than once.
std::vector<std::string> sample_places(const std::vector<Record>& records) {
  std::map<std::pair<std::string, std::string>, std::vector<const Record*>> same;
  for (const Record& r : records) same[{r.task, r.variant}].push_back(&r);
  std::set<std::string> taken;
  std::vector<std::string> places;
  for (const Record& r : records) {
    if (r.samples.empty()) {
      places.emplace_back();
      continue;
    }
    const auto& others = same[{r.task, r.variant}];
    const auto varies = [&](auto member) { return std::any_of(others.begin(), others.end(), [&](const Record* o) { return o->*member != r.*member; }); };
    std::string name = step(r.variant);
    if (varies(&Record::workload)) name += "@" + step(r.workload);
    if (varies(&Record::ranks)) name += "@ranks" + std::to_string(r.ranks);
    if (varies(&Record::seed)) name += "@seed" + std::to_string(r.seed);
    std::string place = "samples/" + step(r.task) + "/" + name;
    for (int n = 2; !taken.insert(place).second; ++n) place = "samples/" + step(r.task) + "/" + name + "@" + std::to_string(n);
    places.push_back(place);
  }
  return places;
}

void write_records(hid_t file, const std::vector<Record>& records, const std::vector<std::string>& places) {
  std::vector<std::pair<Record, std::string>> rows;
  rows.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    rows.emplace_back(records[i], places[i]);
    rows.back().first.samples.clear();
  }
  table::write(file, "records", "one row a verdict: what became of one task, variant and workload", rows, visit_record_row);
}

void write_samples(hid_t file, const std::vector<Record>& records, const std::vector<std::string>& places) {
  const Id samples = hdf5::create_group(file, "samples");
  hdf5::write_text_attribute(samples.get(), "description", "raw timings: a group a task, a table a variant, one row a block and rank; the column `samples` of /records says which");
  std::map<std::string, Id> tasks;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (places[i].empty()) continue;
    const std::string task = step(records[i].task);
    if (!tasks.contains(task)) tasks.emplace(task, hdf5::create_group(samples.get(), task));
    const std::string name = places[i].substr(places[i].rfind('/') + 1);
    table::write(tasks.at(task).get(), name, "timed blocks of " + records[i].task + ", " + records[i].variant + ", " + records[i].workload, records[i].samples,
                 [](const Sample& sample, auto&& f) { visit_sample_fields(sample, f); });
    const Id dataset = hdf5::open_dataset(tasks.at(task).get(), name);
    hdf5::write_text_attribute(dataset.get(), "task", records[i].task);
    hdf5::write_text_attribute(dataset.get(), "variant", records[i].variant);
    hdf5::write_text_attribute(dataset.get(), "workload", records[i].workload);
    hdf5::write_text_attribute(dataset.get(), "key", records[i].key);
  }
}

struct Variable {
  std::string name, value;
};
struct AuditLine {
  std::string line;
};

void write_provenance(hid_t file, const Provenance& provenance) {
  const Id group = hdf5::create_group(file, "provenance");
  hdf5::write_text_attribute(group.get(), "description", "where the figures come from; `json` holds all of it in one text, attributes and tables repeat it for browsing");
  std::vector<std::string> names, descriptions;
  visit_provenance_fields(provenance, [&]<class T>(const FieldFact& fact, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) hdf5::write_text_attribute(group.get(), std::string(fact.name), value);
    else if constexpr (std::is_same_v<T, std::uint64_t>) hdf5::write_text_attribute(group.get(), std::string(fact.name), std::to_string(value));  // 64 bits do not fit i64
    else hdf5::write_integer_attribute(group.get(), std::string(fact.name), value);
    names.emplace_back(fact.name);
    descriptions.emplace_back(fact.description);
  });
  hdf5::write_texts_attribute(group.get(), "field_names", names);
  hdf5::write_texts_attribute(group.get(), "field_descriptions", descriptions);
  const Id json = hdf5::write_text_dataset(group.get(), "json", to_json(provenance));
  hdf5::write_text_attribute(json.get(), "description", "the whole provenance as one JSON object");
  table::write(group.get(), "hosts", "one row a host, with its measured peaks", provenance.hosts, [](const HostFacts& host, auto&& f) { visit_host_fields(host, f); });
  table::write(group.get(), "ranks", "one row a rank: what may differ between ranks", provenance.ranks, [](const RankFacts& rank, auto&& f) { visit_rank_fields(rank, f); });
  std::vector<AuditLine> audit;
  for (const std::string& line : provenance.audit) audit.push_back({line});
  table::write(group.get(), "audit", "what the start-up audit had to say", audit, [](const AuditLine& row, auto&& f) { f(FieldFact{"line", "", "one remark, naming ranks and hosts"}, row.line); });
  std::vector<Variable> variables;
  for (const auto& [name, value] : provenance.environment) variables.push_back({name, value});
  table::write(group.get(), "environment", "environment variables that matter", variables, [](const Variable& v, auto&& f) {
    f(FieldFact{"name", "", "name of the variable"}, v.name);
    f(FieldFact{"value", "", "its value"}, v.value);
  });
}

}  // namespace

void write_run_file(const std::filesystem::path& path, const Provenance& provenance, const std::vector<Record>& records, Disk& disk) { write_run_file(path, provenance, records, nullptr, disk); }

void write_run_file(const std::filesystem::path& path, const Provenance& provenance, const std::vector<Record>& records, const ScalingStudy* study, Disk& disk) {
  const std::vector<std::string> places = sample_places(records);
  const std::string bytes = hdf5::file_image([&](hid_t file) {
    hdf5::write_text_attribute(file, "format", run_format_name);
    hdf5::write_text_attribute(file, "description", "a run of faibench; results/FORMAT.md describes it");
    write_records(file, records, places);
    write_samples(file, records, places);
    const Id scaling = hdf5::create_group(file, "scaling");
    hdf5::write_text_attribute(scaling.get(), "description", "studies over ranks and sizes; empty where none were made");
    if (study) write_scaling(scaling.get(), *study);
    write_provenance(file, provenance);
  });
  write_whole_file(disk, path, bytes, Existing::replace);
}

}  // namespace faibench
