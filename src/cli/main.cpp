// faibench: turns the command line into a call of one subcommand, and errors into one line and an exit code.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>

#include "cli/commands.h"
#include "task/names.h"
#include "tensor/error.h"

namespace faibench {
namespace {

// Every rank of a launch reads the same command line; only the first one complains about it.
bool speaks() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return std::atoi(rank) == 0;
  return true;
}

void complain(const std::string& message) {
  if (speaks()) fmt::print(stderr, "faibench: {}\n", message);
}

// What of the command line nobody took, with the nearest known option where it looks like one.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  if (const auto parsed = app.get_subcommands(); !parsed.empty()) command = parsed.front();
  std::string message = error.what();
  for (const std::string& word : command->remaining()) {
    if (word == "--") break;  // what follows is another command's
    if (word.rfind("--", 0) != 0) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : command->get_options()) known.push_back(option->get_name());
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> near = nearest(name, known, 1);
    message = "unknown option '" + printable(name) + "'" + (near.empty() ? "" : ": did you mean " + near.front() + "?");
    break;
  }
  for (char& c : message)
    if (c == '\n') c = ' ';
  return message + " (see faibench " + (command == &app ? "" : command->get_name() + " ") + "--help)";
}

void check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) known.push_back(command->get_name());
  for (const std::string& name : known)
    if (name == argv[1]) return;
  throw unknown_name("command", argv[1], known, "see faibench --help");
}

int exit_code_for(Error::Kind kind) { return kind == Error::Kind::bad_input || kind == Error::Kind::io ? 2 : 3; }

int run_program(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("Runs a catalog of LLM-infrastructure tasks: checks every implementation against a hard gate, times it against the naive baseline, scores it");
  app.name("faibench");
  app.set_version_flag("--version", "faibench " FAIBENCH_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer("Exit code: 0 fine, 1 a verdict that did not pass, 2 bad input or usage, 3 everything else. Each command has its own --help.\nExample: faibench run --workload smoke");
  add_list(app, exit_code);
  add_show(app, exit_code);
  add_run(app, exit_code);
  add_check(app, exit_code);
  add_report(app, exit_code);
  add_scale(app, exit_code);
  add_launch(app, exit_code);
  add_doctor(app, exit_code);
  try {
    check_subcommand(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream asked;  // --help, --version
      app.exit(error, asked);
      std::string text = asked.str();
      if (!text.ends_with('\n')) text += '\n';
      if (speaks()) fmt::print("{}", text);
      return 0;
    }
    complain(usage_message(app, error));
    return 2;
  } catch (const Error& error) {
    complain(error.what());
    return exit_code_for(error.kind);
  }
  return exit_code;
}

}  // namespace
}  // namespace faibench

int main(int argc, char** argv) {
  int exit_code = 3;
  try {
    exit_code = faibench::run_program(argc, argv);
  } catch (const std::bad_alloc&) {
    faibench::complain("out of memory");
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) exit_code = 0;  // said below, once
    else faibench::complain(std::string("internal error: ") + error.what());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    faibench::complain("standard output cannot be written");
    if (exit_code == 0) exit_code = 2;
  }
  // mpirun ends all ranks as soon as one has left with an error: the one that speaks for them is to be heard first.
  if (exit_code != 0 && !faibench::speaks()) sleep(3);
  return exit_code;
}
