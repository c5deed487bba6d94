#include "launch/job_command.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "launch/default_run_file.h"
#include "launch/stamp.h"
#include "launch/sweep.h"
#include "tensor/error.h"

extern char** environ;

namespace faibench {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The value of "--name VALUE" or "--name=VALUE", and the words without it.
struct Taken {
  std::string value;
  bool found = false;
  std::vector<std::string> rest;
};
Taken take(const std::vector<std::string>& words, const std::string& name) {
  Taken taken;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name && i + 1 < words.size()) {
      taken.found = true;
      taken.value = words[++i];
    } else if (words[i].starts_with(name + "=")) {
      taken.found = true;
      taken.value = words[i].substr(name.size() + 1);
    } else {
      taken.rest.push_back(words[i]);
    }
  }
  return taken;
}

// What mpirun hands to other hosts only when told so.
std::vector<std::string> variables_to_export() {
  std::vector<std::string> names = {job_variable, hang_after_variable};
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if ((name.starts_with("FAIBENCH_") || name.starts_with("OMP_")) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (quote) {
      if (c == quote) quote = 0;
      else word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (std::strchr(" \t\n", c)) {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote) throw Error(Error::Kind::bad_input, "--launcher: a quote is not closed in: " + text);
  if (in_word) words.push_back(word);
  return words;
}

JobCommand::JobCommand(LaunchOptions options) : options_(std::move(options)), launcher_(split_words(options_.launcher)) {
  if (launcher_.empty()) throw Error(Error::Kind::bad_input, "--launcher is empty: name mpirun or srun");
  const std::string name = base_name(launcher_.front());
  by_srun_ = name == "srun";
  if (!by_srun_ && name != "mpirun" && name != "mpiexec" && name != "orterun" && name != "prterun")
    throw Error(Error::Kind::bad_input, "--launcher " + name + ": known are mpirun and srun, by any path and with options of their own");
  if (by_srun_ && !options_.hostfile.empty()) throw Error(Error::Kind::bad_input, "--hostfile is for mpirun: srun has its hosts from Slurm");
  if (options_.job.empty() || (options_.job.front() != "run" && options_.job.front() != "scale"))
    throw Error(Error::Kind::bad_input, "after -- comes what to launch: run or scale, with their options");
  const Taken resumed = take(options_.job, "--resume"), out = take(options_.job, "--out");
  resumes_ = resumed.found;
  run_file_ = resumed.found ? resumed.value : out.found ? out.value : default_run_file(options_.job.front());
  if (run_file_.extension() == ".jsonl") run_file_.replace_extension(".h5");
  if (!resumed.found && !out.found) {
    options_.job.push_back("--out");
    options_.job.push_back(run_file_.string());
  }
}

std::vector<std::string> JobCommand::start(const std::vector<std::string>& job) const {
  std::vector<std::string> words = launcher_;
  words.insert(words.end(), {"-n", std::to_string(options_.ranks)});
  if (by_srun_) {
    if (std::ranges::none_of(launcher_, [](const std::string& word) { return word.starts_with("--mpi"); })) words.push_back("--mpi=pmix");
    words.push_back("--kill-on-bad-exit=1");
  } else {
    if (!options_.hostfile.empty()) words.insert(words.end(), {"--hostfile", options_.hostfile});
    for (const std::string& name : variables_to_export()) words.insert(words.end(), {"-x", name});
  }
  words.push_back(options_.program);
  words.insert(words.end(), job.begin(), job.end());
  return words;
}

std::vector<std::string> JobCommand::first() const { return start(options_.job); }

std::vector<std::string> JobCommand::again() const {
  std::vector<std::string> job = options_.job;
  if (!resumes_ && std::ranges::find(job, "--force") == job.end()) job.push_back("--force");
  return start(job);
}

std::vector<std::string> JobCommand::resume(const std::vector<GivenUp>& given_up) const {
  std::vector<std::string> job = take(options_.job, "--out").rest;
  std::erase(job, "--force");
  if (!resumes_) job.insert(job.end(), {"--resume", run_file_.string()});
  for (const GivenUp& item : given_up) job.insert(job.end(), {"--give-up", item.item + "=" + item.why});
  return start(job);
}

std::vector<std::string> JobCommand::sweep_on(const std::string& host, const std::string& cookie) const {
  std::vector<std::string> words = launcher_;
  if (by_srun_) {
    words.insert(words.end(), {"--overlap", "--mpi=none", "-N", "1", "-n", "1", "-w", host});
  } else {
    words.insert(words.end(), {"-n", "1", "--host", host});
  }
  words.insert(words.end(), {options_.program, "launch", "--sweep", cookie});
  return words;
}

std::vector<std::string> JobCommand::hosts_of_file() const {
  std::vector<std::string> hosts;
  std::ifstream file(options_.hostfile);
  for (std::string line; !options_.hostfile.empty() && std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (std::string host; words >> host && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

}  // namespace faibench
