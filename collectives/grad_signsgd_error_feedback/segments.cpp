#include "collectives/grad_signsgd_error_feedback/segments.h"

#include <algorithm>
#include <span>

#include "collectives/grad_signsgd_error_feedback/sparse.h"

namespace faibench::grad_signsgd_error_feedback {

Rejected segments::decompress(std::int32_t /*format*/, View<const std::uint8_t, 1> payload, std::int64_t n, std::int64_t /*step*/,
                              View<const std::int64_t, 2> /*layout*/, View<float, 1> update) {
  const std::span<const std::uint8_t> bytes = payload.flat();
  const std::int64_t count = (n + length - 1) / length, head = std::min<std::int64_t>(2 * std::max<std::int64_t>(count - 1, 0), payload.size());
  std::span<const std::uint8_t> rest = bytes.subspan(static_cast<std::size_t>(head));
  for (std::int64_t s = 0; s < count; ++s) {
    const auto at = static_cast<std::size_t>(2 * s);
    const std::size_t said = s + 1 == count ? rest.size() : 2 * s + 1 < head ? bytes[at] | static_cast<std::size_t>(bytes[at + 1]) << 8 : 0;
    const std::span<const std::uint8_t> own = rest.first(std::min(said, rest.size()));
    const std::int64_t first = s * length, m = std::min(length, n - first);
    sparse::expand(sparse::decode(own, m), update.flat().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(m)));
    rest = rest.subspan(own.size());
  }
  return std::nullopt;
}

}  // namespace faibench::grad_signsgd_error_feedback
