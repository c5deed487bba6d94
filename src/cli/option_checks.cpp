#include "cli/option_checks.h"

#include <charconv>
#include <string>

#include "cli/terminal.h"
#include "task/names.h"

namespace faibench {

CLI::Validator between(double low, double high) {
  return {[low, high](std::string& text) -> std::string {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
            return "must be a number from " + number_text(low) + " to " + number_text(high) + ", not " + printable(text.substr(0, 40));
          },
          ""};
}

CLI::Validator whole_number() {
  return {[](std::string& text) -> std::string {
            std::uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc() || end != text.data() + text.size()) return "must be a whole number below 2^64, not " + printable(text.substr(0, 40));
            text = std::to_string(value);
            return "";
          },
          ""};
}

CLI::Validator not_empty() {
  return {[](std::string& text) -> std::string { return text.empty() ? "must not be empty" : ""; }, ""};
}

}  // namespace faibench
