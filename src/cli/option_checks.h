// What CLI11's own checks let through.
#pragma once
#include <CLI/CLI.hpp>

namespace faibench {

/// A number in [low, high]; CLI::Range lets NaN pass.
CLI::Validator between(double low, double high);
/// Decimal digits below 2^64; CLI11 itself lets negative numbers wrap around, large ones saturate and leading zeros mean octal.
CLI::Validator whole_number();
/// Any text but the empty one: `--resume "$RUN"` with RUN unset is a mistake, not a fresh run.
CLI::Validator not_empty();

}  // namespace faibench
