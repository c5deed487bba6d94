#include "cluster/message.h"

#include <array>
#include <charconv>

#include "tensor/error.h"

namespace faibench {
namespace {

constexpr std::array<std::string_view, 13> names = {"judge", "calibrate", "gang",  "stop",  "end",    "verdict", "peaks",
                                                    "judge_failed", "gang_done", "stage", "fatal", "signal", "bye"};

}  // namespace

std::string_view name_of(RankMessage::Type type) { return names[static_cast<std::size_t>(type)]; }

// "<type> <item>\n<text>"
std::string encode(const RankMessage& message) {
  return std::string(name_of(message.type)) + ' ' + std::to_string(message.item) + '\n' + message.text;
}

RankMessage decode(std::string_view bytes) {
  const std::size_t line_end = bytes.find('\n'), space = bytes.find(' ');
  if (line_end != std::string_view::npos && space < line_end) {
    const std::string_view number = bytes.substr(space + 1, line_end - space - 1);
    for (std::size_t type = 0; type < names.size(); ++type) {
      if (bytes.substr(0, space) != names[type]) continue;
      RankMessage message{static_cast<RankMessage::Type>(type), -1, std::string(bytes.substr(line_end + 1))};
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), message.item);
      if (error == std::errc() && end == number.data() + number.size()) return message;
    }
  }
  throw Error(Error::Kind::mpi, "a message between ranks cannot be read: '" + std::string(bytes.substr(0, 40)) + "'; do all ranks run the same program?");
}

}  // namespace faibench
