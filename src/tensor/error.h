// The one exception type that crosses parts.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace faibench {

/// One line for the user: place, reason, way out. `kind` decides the exit code, in main() alone.
struct Error : std::runtime_error {
  enum class Kind { bad_input, io, device, mpi, internal };
  Error(Kind k, const std::string& message) : std::runtime_error(message), kind(k) {}
  /// The same error with its place in front: "RUN.h5: /records row 7: unknown dtype 'f8'".
  [[nodiscard]] Error at(std::string_view place) const { return {kind, std::string(place) + ": " + what()}; }
  Kind kind;
};

}  // namespace faibench
