// What makes two verdicts the same one: the key that --resume compares.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "task/task.h"

namespace faibench {

/// Everything that a verdict depends on.
struct ItemIdentity {
  std::string task, contract;   ///< its name; contract_text()
  std::string workload, variant;
  std::uint64_t seed = 0;
  int ranks = 1;
  std::string worker_hash;      ///< of the bytes of the program that judges and runs the variants
  std::string machine_class;    ///< CPU model, cores, instruction sets, GPUs of all hosts
  bool emulated = false;        ///< a variant for GPUs, on the emulator
};
/// 32 hexadecimal digits (XXH3, 128 bits), equal for equal identities on every machine.
std::string item_key(const ItemIdentity& identity);

/// The contract of a task in words, canonical: tensors, dtypes, extents, rejections, gate, metric, the workload's description.
/// Two builds whose contracts differ in any of them give different texts.
std::string contract_text(const Task& task, std::string_view workload);
/// The same of its multi-rank form. Only for tasks that have one.
std::string multi_rank_contract_text(const Task& task, std::string_view workload);

/// 32 hexadecimal digits of a file's bytes. Throws Error(io).
std::string file_hash(const std::filesystem::path& path);

}  // namespace faibench
