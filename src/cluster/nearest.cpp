#include <algorithm>
#include <numeric>

#include "cluster/plan.h"

namespace faibench {
namespace {

// Edits (insert, delete, replace) that make one word of the other.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_text(const std::string& name, const std::vector<std::string>& known) {
  if (known.empty()) return "there are none";
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& candidate : known) {
    const bool contained = name.size() >= 3 && candidate.find(name) != std::string::npos;
    ranked.emplace_back(contained ? 1 : edit_distance(name, candidate), candidate);
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
  std::string text;
  const std::size_t near = std::max<std::size_t>(2, name.size() / 3);
  for (std::size_t i = 0; i < ranked.size() && i < 3 && ranked[i].first <= near; ++i) text += (text.empty() ? "did you mean '" : " or '") + ranked[i].second + "'";
  if (!text.empty()) return text + "?";
  const std::size_t shown = std::min<std::size_t>(known.size(), 12);
  for (std::size_t i = 0; i < shown; ++i) text += (text.empty() ? "known are " : ", ") + known[i];
  return text + (shown < known.size() ? ", ... (faibench list shows all)" : "");
}

}  // namespace faibench
