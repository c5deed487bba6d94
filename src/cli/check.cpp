// faibench check CASE.h5...: case files against variants, each in a process of its own.
#include <unistd.h>

#include <fmt/core.h>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "cli/commands.h"
#include "task/names.h"
#include "cli/selection.h"
#include "cli/terminal.h"
#include "device/cuda_library.h"
#include "judge/check.h"
#include "judge/device_library.h"
#include "judge/job.h"
#include "tensor/case_file.h"

namespace faibench {
namespace {

struct Options {
  std::vector<std::string> files, variants;
  bool emulate = false, json = false, quiet = false;
};

/// One line of the command's answer.
struct Line {
  std::string file, task, name, variant;
  bool emulated = false;
  std::string rejected;           ///< the code that came and had to come
  std::optional<Failure> failure;
};

// Said here, once, and not by every candidate process that does not come up.
void check_device(const Task& task, const std::string& variant, bool emulate) {
  const Variant* found = task.find_variant(variant);
  if (emulate && !(found && found->on_device)) throw Error(Error::Kind::bad_input, "--emulate runs variants for GPUs; '" + variant + "' of " + task.name + " is none");
  if (emulate || !found || !found->on_device) return;
  std::string why;
  CudaLibrary* cuda = cuda_library(why);
  if (!find_device_library(DeviceKind::cuda)) why = no_device_library(DeviceKind::cuda);
  else if (cuda && cuda->count(why) > 0) return;
  throw Error(Error::Kind::device, "'" + variant + "' of " + task.name + " needs a GPU: " + why + "; --emulate checks it on a CPU");
}

std::vector<std::string> variants_for(const Task& task, const Options& options, const std::string& file) {
  std::vector<std::string> names;
  if (options.variants.empty() && options.emulate) {
    for (const Variant& variant : task.variants)
      if (variant.on_device && !variant.name.starts_with("peer:")) names.push_back(variant.name);
    if (names.empty()) throw Error(Error::Kind::bad_input, file + ": " + task.name + " has no variant for GPUs to emulate");
    return names;
  }
  if (options.variants.empty()) {
    for (const char* name : {"reference", "baseline", "cpu"})
      if (task.find_variant(name)) names.emplace_back(name);
    return names;
  }
  std::vector<std::string> known;
  for (const Variant& variant : task.variants) known.push_back(variant.name);
  for (const std::string& name : options.variants) {
    if (!name.starts_with(library_prefix) && !task.find_variant(name)) throw unknown_name("variant", name, known, "of " + task.name).at(file);
    check_device(task, name, options.emulate);
    names.push_back(name);
  }
  return names;
}

void print_text(const Line& line, bool color) {
  const char* const red = color ? "\033[31m" : "";
  const char* const green = color ? "\033[32m" : "";
  const char* const plain = color ? "\033[0m" : "";
  const std::string variant = line.variant + (line.emulated ? " (emulated)" : "");
  if (!line.failure) {
    fmt::print("{}holds{}  {}  {}  {}{}\n", green, plain, line.task, line.name, variant, line.rejected.empty() ? "" : "  (rejected: " + line.rejected + ")");
    return;
  }
  fmt::print("{}FAILS{}  {}  {}  {}  {} ({}): {}\n", red, plain, line.task, line.name, variant, name_of(line.failure->verdict), line.failure->reason, line.failure->detail);
  if (!line.failure->stderr_tail.empty()) fmt::print("{}", wrapped(line.failure->stderr_tail, 7, 1000));
}

nlohmann::ordered_json json_of(const Line& line) {
  nlohmann::ordered_json json = {{"file", line.file}, {"task", line.task}, {"case", line.name}, {"variant", line.variant}, {"emulated", line.emulated}, {"holds", !line.failure}};
  if (!line.rejected.empty()) json["rejected"] = line.rejected;
  if (line.failure) {
    json["verdict"] = name_of(line.failure->verdict);
    json["reason"] = line.failure->reason;
    json["detail"] = line.failure->detail;
    if (!line.failure->stderr_tail.empty()) json["stderr_tail"] = line.failure->stderr_tail;
  }
  return json;
}

/// Keeps the candidate processes of one task and starts those of the next when it changes.
class Checkers {
 public:
  /// `variant` as a candidate process is told it.
  std::optional<Failure> check(const Task& task, const std::string& variant, const CaseFile& file, const std::string& path) {
    if (task_ != &task) checkers_.clear();
    task_ = &task;
    std::unique_ptr<CaseChecker>& checker = checkers_[variant];
    if (!checker) checker = std::make_unique<CaseChecker>(task, variant, variant.starts_with(emulated_prefix) ? emulated_call_limit_seconds : call_limit_seconds);
    try {
      return checker->check({file.inputs, file.outputs, file.expect_error});
    } catch (const Error& error) {
      throw error.at(path);
    }
  }

 private:
  static constexpr double call_limit_seconds = 60, emulated_call_limit_seconds = 1200;
  const Task* task_ = nullptr;
  std::unordered_map<std::string, std::unique_ptr<CaseChecker>> checkers_;
};

int check(const Options& options) {
  if (options.emulate && !find_device_library(DeviceKind::emulated)) throw Error(Error::Kind::bad_input, "--emulate: " + no_device_library(DeviceKind::emulated));
  Checkers checkers;
  const bool color = wants_color(STDOUT_FILENO);
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  int held = 0, failed = 0, unreadable = 0;
  for (const std::string& path : options.files) {
    try {
      const CaseFile file = read_case_file(path);
      const Task* task = find_task(file.task);
      if (!task) {
        std::vector<std::string> known;
        for (const Task* t : all_tasks()) known.push_back(t->name);
        throw unknown_name("task", file.task, known, "'faibench list' shows what this build has").at(path);
      }
      for (const std::string& variant : variants_for(*task, options, path)) {
        const std::string candidate = (options.emulate ? std::string(emulated_prefix) : "") + variant;
        const Line line{path, task->name, file.name, variant, options.emulate, file.expect_error, checkers.check(*task, candidate, file, path)};
        ++(line.failure ? failed : held);
        if (options.json) lines.push_back(json_of(line));
        else if (line.failure || !options.quiet) print_text(line, color);
        std::fflush(stdout);
      }
    } catch (const Error& error) {
      if (error.kind != Error::Kind::bad_input && error.kind != Error::Kind::io) throw;
      ++unreadable;  // the other files are still worth checking
      fmt::print(stderr, "faibench: {}\n", error.what());
      if (options.json) lines.push_back({{"file", path}, {"error", error.what()}, {"holds", false}});
    }
  }
  if (options.json) fmt::print("{}\n", nlohmann::ordered_json({{"format", "faibench-check/1"}, {"held", held}, {"failed", failed}, {"unreadable", unreadable}, {"lines", lines}}).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else fmt::print("{} held, {} failed{}\n", held, failed, unreadable ? fmt::format(", {} of {} files not checked", unreadable, options.files.size()) : "");
  return unreadable ? 2 : failed ? 1 : 0;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("check", "Run case files through variants and say whether each answer is right");
  command->add_option("cases", options->files, "Case files (HDF5, faibench-case/1)")->required()->type_name("CASE.h5");
  command->add_option("--variant", options->variants, "Variant to check, or library:PATH; may be repeated; default: reference, baseline and cpu; with --emulate: those for GPUs")->type_name("NAME")->allow_extra_args(false);
  command->add_flag("--emulate", options->emulate, "Run variants for GPUs on the CPU, a thread after another; what a kernel does wrong is named with block, thread and address");
  command->add_flag("--quiet", options->quiet, "Print only what fails, and the closing line");
  command->add_flag("--json", options->json, "Print JSON for programs");
  command->footer("Exit code: 0 every case holds, 1 one fails, 2 a file that is damaged or of no known task, or an unknown variant, 3 no GPU for a variant that needs one.\nExample: faibench check cases/*.h5 --variant cpu");
  command->callback([options, &exit_code] { exit_code = check(*options); });
}

}  // namespace faibench
