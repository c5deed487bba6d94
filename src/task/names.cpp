#include "task/names.h"

#include <algorithm>

namespace faibench {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& known, std::size_t most) {
  if (name.empty() || name.size() > 200) return {};
  std::vector<std::pair<int, std::string>> ranked;
  for (const std::string& candidate : known) {
    int distance = edit_distance(name, candidate);
    const bool part = name.size() >= 3 && candidate.find(name) != std::string::npos;
    if (part) distance = 1;
    if (distance <= static_cast<int>(std::max(name.size(), candidate.size())) / 3 || part || distance == 1) ranked.emplace_back(distance, candidate);
  }
  if (ranked.empty()) {  // nothing alike as a whole: perhaps one word of the name is right
    for (const std::string& candidate : known) {
      const int distance = edit_distance(name, candidate);
      if (name.size() >= 4 && candidate.compare(0, 4, name.substr(0, 4)) == 0) ranked.emplace_back(distance, candidate);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, candidate] : ranked)
    if (names.size() < most && std::find(names.begin(), names.end(), candidate) == names.end()) names.push_back(candidate);
  return names;
}

Error unknown_name(const std::string& kind, std::string_view name, const std::vector<std::string>& known, const std::string& where_all_are) {
  std::string message = "unknown " + kind + " '" + printable(name.substr(0, 80)) + "'";
  const std::vector<std::string> near = nearest(name, known);
  for (std::size_t i = 0; i < near.size(); ++i) message += (i == 0 ? ": did you mean " : i + 1 == near.size() ? " or " : ", ") + near[i];
  if (!near.empty()) message += "?";
  return {Error::Kind::bad_input, message + " (" + where_all_are + ")"};
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

}  // namespace faibench
