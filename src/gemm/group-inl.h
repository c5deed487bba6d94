// Groups of b's columns on their way into panels, a little with every register tile of the group before. Included by multiply.cpp once for each instruction set.
#if defined(FAIBENCH_GEMM_GROUP_INL_H) == defined(HWY_TARGET_TOGGLE)  // Highway's guard: once a target
#ifdef FAIBENCH_GEMM_GROUP_INL_H
#undef FAIBENCH_GEMM_GROUP_INL_H
#else
#define FAIBENCH_GEMM_GROUP_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "gemm/ahead.h"
#include "gemm/pack-inl.h"
#include "gemm/problem.h"
#include "gemm/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace faibench::gemm::HWY_NAMESPACE {

/// One panel of a group: `kept` columns of b, `width` with the zeros after them, which only lanes that nobody keeps will see.
struct Panel {
  std::int64_t kept, width;
  float* data;  ///< (n, width)
};

/// Columns [column, column + columns) of all terms' b at inner positions [k, k + n), packed panel after panel into `to`.
class Group {
 public:
  Group() = default;
  Group(const Problem& p, std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t n, float* to)
      : p_(&p), column_(column), columns_(columns), k_(k), n_(n), to_(to) {
    for_each_piece(p.terms, k, n, [&](const Term& term, std::int64_t first, std::int64_t count, std::int64_t) {
      if (count != n) return;
      whole_ = &term;
      first_ = first;
      units_ = term.b.transposed ? (columns + lanes - 1) / lanes : n;
    });
    if (!whole_) units_ = 1;
  }
  [[nodiscard]] std::int64_t column() const { return column_; }
  [[nodiscard]] std::int64_t panels() const { return (columns_ + tile_shape.columns - 1) / tile_shape.columns; }
  [[nodiscard]] Panel panel(std::int64_t index) const {
    const std::int64_t kept = std::min(tile_shape.columns, columns_ - index * tile_shape.columns);
    return {kept, kept > lanes ? 2 * lanes : lanes, to_ + index * tile_shape.columns * n_};
  }

  /// Packs share number `share` of `shares`; all of them, in any number of calls, make the group.
  void pack_share(std::int64_t share, std::int64_t shares) const {
    const std::int64_t begin = units_ * share / shares, end = units_ * (share + 1) / shares;
    if (begin == end) return;
    if (!whole_) return pack_pieces();
    if (whole_->b.dtype == Dtype::f16) pack_units(static_cast<const f16*>(whole_->b.data), begin, end);
    else pack_units(static_cast<const float*>(whole_->b.data), begin, end);
  }
  /// Where the share after this one reads: the first stream of a fetch.
  void fetch_share(std::int64_t share, std::int64_t shares, Fetch& fetch) const {
    if (!whole_ || share >= shares) return;
    const std::int64_t unit = units_ * share / shares, element = size_of(whole_->b.dtype), stride = whole_->b.stride * element;
    if (unit >= units_) return;
    const char* const data = static_cast<const char*>(whole_->b.data);
    if (!whole_->b.transposed) fetch.at = data + (first_ + unit) * stride + column_ * element;
    else fetch.at = data + (column_ + unit * lanes) * stride + first_ * element + (n_ * element > 512 ? share % 2 * 512 : 0);  // half of the columns' bytes each
    fetch.stride = stride;
  }

 private:
  template <class T>
  void pack_units(const T* data, std::int64_t begin, std::int64_t end) const {
    const std::int64_t stride = whole_->b.stride;
    if (!whole_->b.transposed) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* from = data + (first_ + i) * stride + column_;
        float* to = to_ + i * tile_shape.columns;
        std::int64_t left = columns_;
        for (; left >= tile_shape.columns; left -= tile_shape.columns, from += tile_shape.columns, to += n_ * tile_shape.columns) {
          store(load_floats(from), to);
          store(load_floats(from + lanes), to + lanes);
        }
        if (left == 0) continue;
        const Panel last = panel(panels() - 1);
        copy_row(from, left, last.data + i * last.width);
        std::fill(last.data + i * last.width + left, last.data + (i + 1) * last.width, 0.0f);
      }
      return;
    }
    for (std::int64_t unit = begin; unit < end; ++unit) {  // as many stored rows as a vector holds
      const std::int64_t at = unit * lanes, count = std::min(lanes, columns_ - at);
      const Panel into = panel(at / tile_shape.columns);
      float* const to = into.data + at % tile_shape.columns;
      if (count < lanes)
        for (std::int64_t i = 0; i < n_; ++i) std::fill(to + i * into.width + count, to + i * into.width + lanes, 0.0f);
      transpose_block(data + (column_ + at) * stride + first_, stride, count, n_, to, into.width);
    }
  }
  /// A block that lies in several terms.
  void pack_pieces() const {
    for (std::int64_t index = 0; index < panels(); ++index) {
      const Panel into = panel(index);
      if (into.kept < into.width)
        for (std::int64_t i = 0; i < n_; ++i) std::fill(into.data + i * into.width + into.kept, into.data + (i + 1) * into.width, 0.0f);
      for_each_piece(p_->terms, k_, n_, [&](const Term& term, std::int64_t first, std::int64_t count, std::int64_t at) {
        pack_any(term.b, first, count, column_ + index * tile_shape.columns, into.kept, into.data + at * into.width, into.width);
      });
    }
  }

  const Problem* p_ = nullptr;
  std::int64_t column_ = 0, columns_ = 0, k_ = 0, n_ = 0;
  float* to_ = nullptr;
  const Term* whole_ = nullptr;  ///< the block lies in this term, from `first_` on
  std::int64_t first_ = 0, units_ = 0;
};

}  // namespace faibench::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
