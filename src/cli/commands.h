// The subcommands: each adds itself to the app and sets the program's exit code when it ran.
#pragma once
#include <CLI/CLI.hpp>

namespace faibench {

void add_list(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_scale(CLI::App& app, int& exit_code);
void add_launch(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace faibench
