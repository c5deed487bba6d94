#include "cluster/item_key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace faibench {
namespace {

std::string hex(XXH128_hash_t hash) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high64), static_cast<unsigned long long>(hash.low64));
  return text.data();
}

// Each field with its length in front: no two lists of fields give the same text.
void add(std::string& text, std::string_view field) {
  text += std::to_string(field.size());
  text += ':';
  text += field;
  text += '\n';
}

void add_tensor(std::string& text, std::string_view role, const TensorSpec& spec) {
  add(text, role);
  add(text, spec.name);
  std::string dtypes;
  for (Dtype dtype : spec.dtypes) dtypes += std::string(name_of(dtype)) + ' ';
  add(text, spec.dtype_of.empty() ? dtypes : "like " + spec.dtype_of);
  std::string extents;
  for (const Extent& extent : spec.extents) extents += extent.text() + ',';
  add(text, extents);
  add(text, spec.valid_range);
  add(text, std::string(spec.optional ? "optional " : "") + (spec.in_place ? "in place" : ""));
  add(text, spec.last_offset ? spec.last_offset->text() : "");
  add(text, spec.length);
  add(text, spec.condition);
}

void add_contract(std::string& text, const Contract& contract) {
  for (const TensorSpec& spec : contract.inputs()) add_tensor(text, "input", spec);
  for (const TensorSpec& spec : contract.outputs()) add_tensor(text, "output", spec);
  for (const Rule& rule : contract.rules()) {
    add(text, "rule");
    add(text, rule.code);
    add(text, rule.condition);
  }
}

void add_judgement(std::string& text, const Task& task) {
  add(text, task.gate.text);
  add(text, task.metric.text);
  add(text, task.metric.counts_time ? "time" : "");
  add(text, std::to_string(task.metric.exponent));
}

}  // namespace

std::string contract_text(const Task& task, std::string_view workload) {
  std::string text;
  add(text, task.name);
  add_contract(text, task.contract);
  add_judgement(text, task);
  if (const Workload* found = task.find_workload(workload)) add(text, found->description);
  return text;
}

std::string multi_rank_contract_text(const Task& task, std::string_view workload) {
  std::string text;
  add(text, task.name + " over ranks");
  add_contract(text, task.multi_rank->contract);
  add_judgement(text, task);
  for (const auto& found : task.multi_rank->workloads) {
    if (found.name == workload) add(text, found.description);
  }
  return text;
}

std::string item_key(const ItemIdentity& identity) {
  std::string text;
  add(text, identity.task);
  add(text, identity.contract);
  add(text, identity.workload);
  add(text, identity.variant);
  add(text, std::to_string(identity.seed));
  add(text, std::to_string(identity.ranks));
  add(text, identity.worker_hash);
  add(text, identity.machine_class);
  if (identity.emulated) add(text, "emulated");
  return hex(XXH3_128bits(text.data(), text.size()));
}

std::string file_hash(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw Error(Error::Kind::io, path.string() + ": " + std::strerror(errno));
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::array<char, 1 << 16> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file.get())) XXH3_128bits_update(state.get(), buffer.data(), got);
  if (std::ferror(file.get())) throw Error(Error::Kind::io, path.string() + ": cannot be read");
  return hex(XXH3_128bits_digest(state.get()));
}

}  // namespace faibench
