#include "launch/stamp.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace faibench {
namespace {

constexpr std::size_t stamp_bytes = 1024;
constexpr double usual_hang_after = 60;

std::string shortened(const std::string& text, std::size_t most) { return text.size() <= most ? text : text.substr(0, most); }

}  // namespace

std::string describe_phase(const Stamp& stamp) {
  std::string text = stamp.phase;
  if (!stamp.item.empty()) text += " " + stamp.item;
  if (!stamp.detail.empty()) text += " (" + stamp.detail + ")";
  return text;
}

std::string to_text(const Stamp& stamp) {
  std::string text = nlohmann::json{{"job", shortened(stamp.job, 60)}, {"rank", stamp.rank}, {"host", shortened(stamp.host, 100)}, {"pid", stamp.pid},     {"phase", shortened(stamp.phase, 40)}, {"detail", shortened(stamp.detail, 160)},
                                    {"item", shortened(stamp.item, 200)}, {"deadline_seconds", stamp.deadline_seconds}, {"steps", stamp.steps}, {"beats", stamp.beats}, {"beat_seconds", stamp.beat_seconds}}
                         .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() < stamp_bytes) text.resize(stamp_bytes - 1, ' ');
  return text + "\n";
}

std::optional<Stamp> stamp_from_text(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Stamp stamp;
    json.at("job").get_to(stamp.job);
    json.at("rank").get_to(stamp.rank);
    json.at("host").get_to(stamp.host);
    json.at("pid").get_to(stamp.pid);
    json.at("phase").get_to(stamp.phase);
    json.at("detail").get_to(stamp.detail);
    json.at("item").get_to(stamp.item);
    json.at("deadline_seconds").get_to(stamp.deadline_seconds);
    json.at("steps").get_to(stamp.steps);
    json.at("beats").get_to(stamp.beats);
    json.at("beat_seconds").get_to(stamp.beat_seconds);
    return stamp;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::filesystem::path stamp_folder(const std::filesystem::path& run_file) { return std::filesystem::path(run_file).replace_extension(".ranks"); }

std::filesystem::path stamp_path(const std::filesystem::path& folder, int rank) { return folder / std::to_string(rank); }

std::optional<Stamp> read_stamp(const std::filesystem::path& folder, int rank) {
  std::ostringstream text;
  text << std::ifstream(stamp_path(folder, rank), std::ios::binary).rdbuf();
  auto stamp = stamp_from_text(text.str());
  return stamp && stamp->rank == rank ? stamp : std::nullopt;
}

std::map<int, Stamp> read_stamps(const std::filesystem::path& folder, const std::string& job) {
  std::map<int, Stamp> stamps;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const int rank = std::atoi(name.c_str());
    if (std::to_string(rank) != name) continue;
    if (auto stamp = read_stamp(folder, rank); stamp && stamp->job == job) stamps.emplace(rank, std::move(*stamp));
  }
  return stamps;
}

double silence_limit(const Stamp& stamp, double hang_after_seconds) { return hang_after_seconds / 2 + 5 * stamp.beat_seconds; }

double hang_after_from_environment() {
  const char* text = std::getenv(hang_after_variable);
  if (!text) return usual_hang_after;
  const std::string_view view = text;
  double seconds = 0;
  const auto [end, bad] = std::from_chars(view.data(), view.data() + view.size(), seconds);
  return bad == std::errc() && end == view.data() + view.size() && seconds >= 1 && seconds <= 86400 ? seconds : usual_hang_after;
}

}  // namespace faibench
