#include "device/assignment.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace faibench {

std::vector<int> assign_gpus(const std::vector<std::vector<std::string>>& visible) {
  std::vector<std::size_t> order(visible.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return visible[a].size() < visible[b].size(); });
  std::map<std::string, int> users;
  std::vector<int> given(visible.size(), -1);
  for (const std::size_t rank : order) {
    const auto& own = visible[rank];
    if (own.empty()) continue;
    const auto least = std::ranges::min_element(own, {}, [&](const std::string& uuid) { return users[uuid]; });  // the first of the least used
    ++users[*least];
    given[rank] = static_cast<int>(least - own.begin());
  }
  return given;
}

std::string only_device(const std::optional<std::string>& value, int position) {
  if (!value) return std::to_string(position);
  std::size_t start = 0;
  for (int i = 0; i < position && start != std::string::npos; ++i) start = value->find(',', start + (i > 0));
  if (start == std::string::npos) return "";
  std::string token = value->substr(start + (position > 0));
  token = token.substr(0, token.find(','));
  const std::size_t first = token.find_first_not_of(' ');
  return first == std::string::npos ? "" : token.substr(first, token.find_last_not_of(' ') + 1 - first);
}

}  // namespace faibench
