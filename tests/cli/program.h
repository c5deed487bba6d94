// Runs programs from outside, as a user would: arguments in, stdout, stderr and exit code out.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace faibench::testing_support {

/// A folder of its own for each test, gone afterwards.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "faibench_cli_XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no scratch folder");
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Outcome {
  int code = -1;  ///< 128 + signal where one ended it
  std::string out, err;
};
inline void PrintTo(const Outcome& o, std::ostream* os) { *os << "exit code " << o.code << "\nstdout: " << o.out << "\nstderr: " << o.err; }

/// Variables as "NAME=value" ("NAME=" leaves it empty).
struct Surroundings {
  std::vector<std::string> variables;
  std::string folder;  ///< working folder; empty: this one
};

inline Outcome run_command(const std::vector<std::string>& words, const Surroundings& surroundings = {}) {
  const Scratch captured;
  const pid_t pid = fork();
  if (pid == 0) {
    const int out = open(captured.file("out").c_str(), O_CREAT | O_WRONLY, 0600), err = open(captured.file("err").c_str(), O_CREAT | O_WRONLY, 0600);
    const int in = open("/dev/null", O_RDONLY);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    if (!surroundings.folder.empty() && chdir(surroundings.folder.c_str()) != 0) _exit(126);
    for (const std::string& variable : surroundings.variables) {
      const auto equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  Outcome outcome;
  int status = 0;
  waitpid(pid, &status, 0);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_text(captured.file("out"));
  outcome.err = read_text(captured.file("err"));
  return outcome;
}

/// The program of this build, from $FAIBENCH_BIN.
inline Outcome faibench(std::vector<std::string> arguments, const Surroundings& surroundings = {}) {
  const char* program = std::getenv("FAIBENCH_BIN");
  if (!program) return {-1, "", "set FAIBENCH_BIN to the program"};
  arguments.insert(arguments.begin(), program);
  return run_command(arguments, surroundings);
}

/// Exactly one line, "faibench: ...".
inline testing::AssertionResult is_one_complaint(const std::string& err) {
  if (err.rfind("faibench: ", 0) != 0) return testing::AssertionFailure() << "no complaint: " << err;
  if (err.find('\n') != err.size() - 1) return testing::AssertionFailure() << "not one line: " << err;
  return testing::AssertionSuccess();
}

}  // namespace faibench::testing_support
