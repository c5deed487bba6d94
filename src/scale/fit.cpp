#include "scale/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "scale/statistics.h"

namespace faibench::scale {
namespace {

constexpr double resolution = 0.01;          // medians are no better than that: closer fits explain noise
constexpr double huber = 0.1;                // relative residuals above weigh less
constexpr int reweightings = 8;
constexpr double least_left_out = 4096;      // bytes: below, times are all latency

/// Times at the breaks and straight lines between, by least weighted relative squares: the normal equations of hat functions. A piece that comes out falling is held flat, one that would begin below zero is held
/// in proportion to S, and the others are solved for again.
class Broken {
 public:
  Broken(const std::vector<double>& breaks, std::span<const FitPoint> points) : breaks_(breaks), points_(points), held_(breaks.size() - 1, Held::no) {}

  /// The times at the breaks.
  std::vector<double> solve(std::span<const double> weights) {
    for (;;) {
      const std::vector<double> at = solve_held(weights);
      bool changed = false;
      for (std::size_t k = 0; k < held_.size(); ++k) {
        if (held_[k] != Held::no) continue;
        if (at[k + 1] < at[k]) held_[k] = Held::flat;
        else if (at[k + 1] * breaks_[k] > at[k] * breaks_[k + 1] * (1 + 1e-12)) held_[k] = Held::proportional;
        changed = changed || held_[k] != Held::no;
      }
      if (!changed) return at;
    }
  }

 private:
  enum class Held { no, flat, proportional };

  // Every break's time is a factor times one of the unknowns; a held piece ties its end to its beginning.
  std::vector<double> solve_held(std::span<const double> weights) const {
    const std::size_t breaks = breaks_.size();
    std::vector<std::size_t> unknown(breaks, 0);
    std::vector<double> factor(breaks, 1);
    for (std::size_t k = 1; k < breaks; ++k) {
      unknown[k] = unknown[k - 1] + (held_[k - 1] == Held::no ? 1 : 0);
      if (held_[k - 1] != Held::no) factor[k] = factor[k - 1] * (held_[k - 1] == Held::flat ? 1 : breaks_[k] / breaks_[k - 1]);
    }
    const std::size_t n = unknown.back() + 1;
    std::vector<double> matrix(n * n, 0), right(n, 0), row(n);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      std::size_t k = 0;
      while (k + 2 < breaks && points_[i].bytes > breaks_[k + 1]) ++k;
      const double share = (points_[i].bytes - breaks_[k]) / (breaks_[k + 1] - breaks_[k]);
      std::ranges::fill(row, 0);
      row[unknown[k]] += factor[k] * (1 - share) / points_[i].seconds;
      row[unknown[k + 1]] += factor[k + 1] * share / points_[i].seconds;
      for (std::size_t a = 0; a < n; ++a) {
        right[a] += weights[i] * row[a];
        for (std::size_t b = 0; b < n; ++b) matrix[a * n + b] += weights[i] * row[a] * row[b];
      }
    }
    // Scaled to a diagonal of 1, because times at both ends may differ by six orders of magnitude; symmetric and definite, so that no pivot is looked for.
    std::vector<double> scale(n);
    for (std::size_t a = 0; a < n; ++a) scale[a] = matrix[a * n + a] > 0 ? 1 / std::sqrt(matrix[a * n + a]) : 1;
    for (std::size_t a = 0; a < n; ++a) {
      right[a] *= scale[a];
      for (std::size_t b = 0; b < n; ++b) matrix[a * n + b] *= scale[a] * scale[b];
      matrix[a * n + a] += 1e-13;
    }
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a + 1; b < n; ++b) {
        const double times = matrix[b * n + a] / matrix[a * n + a];
        for (std::size_t c = a; c < n; ++c) matrix[b * n + c] -= times * matrix[a * n + c];
        right[b] -= times * right[a];
      }
    }
    for (std::size_t a = n; a-- > 0;) {
      for (std::size_t b = a + 1; b < n; ++b) right[a] -= matrix[a * n + b] * right[b];
      right[a] /= matrix[a * n + a];
    }
    std::vector<double> at(breaks);
    for (std::size_t k = 0; k < breaks; ++k) at[k] = factor[k] * right[unknown[k]] * scale[unknown[k]];
    return at;
  }

  const std::vector<double>& breaks_;
  std::span<const FitPoint> points_;
  std::vector<Held> held_;
};

std::vector<Piece> fit_at(const std::vector<double>& breaks, std::span<const FitPoint> points) {
  std::vector<double> weights(points.size(), 1);
  Fit fit;
  for (int round = 0; round < reweightings; ++round) {
    const std::vector<double> at = Broken(breaks, points).solve(weights);
    fit.pieces.clear();
    for (std::size_t k = 0; k + 1 < breaks.size(); ++k) {
      const double beta = std::max(0.0, (at[k + 1] - at[k]) / (breaks[k + 1] - breaks[k]));
      fit.pieces.push_back({breaks[k], breaks[k + 1], std::max(0.0, at[k] - beta * breaks[k]), beta});
    }
    for (std::size_t i = 0; i < points.size(); ++i) weights[i] = std::min(1.0, huber / std::max(1e-12, std::abs(fit.seconds(points[i].bytes) / points[i].seconds - 1)));
  }
  return fit.pieces;
}

/// Breaks one after another, each where it helps most.
std::vector<double> choose_breaks(std::span<const FitPoint> points, int most_pieces) {
  const auto n = static_cast<double>(points.size());
  // Huber's loss of the logarithm: twice as long counts as half as long.
  const auto loss = [&](const std::vector<double>& breaks) {
    double sum = 0;
    const Fit fit{fit_at(breaks, points), {}, 0, 0};
    for (const FitPoint& p : points) {
      const double r = std::abs(std::log(fit.seconds(p.bytes) / p.seconds));
      sum += r <= huber ? r * r : huber * (2 * r - huber);
    }
    return sum;
  };
  const auto criterion = [&](double sum, std::size_t pieces) { return n * std::log(sum / n + resolution * resolution) + static_cast<double>(2 * pieces) * std::log(n); };
  std::vector<double> breaks{points.front().bytes, points.back().bytes};
  double least = criterion(loss(breaks), 1);
  while (static_cast<int>(breaks.size()) - 1 < most_pieces && breaks.size() + 1 < points.size()) {
    std::vector<double> best;
    double best_loss = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i + 1 < points.size(); ++i) {
      if (std::ranges::find(breaks, points[i].bytes) != breaks.end()) continue;
      std::vector<double> more = breaks;
      more.insert(std::ranges::upper_bound(more, points[i].bytes), points[i].bytes);
      if (const double l = loss(more); l < best_loss) {
        best_loss = l;
        best = std::move(more);
      }
    }
    if (best.empty()) break;
    const double now = criterion(best_loss, best.size() - 1);
    if (now >= least) break;
    least = now;
    breaks = std::move(best);
  }
  return breaks;
}

}  // namespace

double Fit::seconds(double bytes) const {
  for (const Piece& piece : pieces) {
    if (bytes <= piece.to_bytes || &piece == &pieces.back()) return piece.alpha + piece.beta * bytes;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Fit fit_pieces(std::span<const FitPoint> points, int most_pieces) {
  Fit fit;
  if (points.size() < 2) return fit;
  fit.pieces = fit_at(choose_breaks(points, std::max(1, most_pieces)), points);
  std::vector<double> sizes;
  for (const FitPoint& p : points) {
    fit.residuals.push_back(fit.seconds(p.bytes) / p.seconds - 1);
    sizes.push_back(std::abs(fit.residuals.back()));
  }
  fit.max_residual = *std::ranges::max_element(sizes);
  fit.median_residual = median_of(std::move(sizes));
  return fit;
}

std::vector<LeftOut> leave_one_out(std::span<const FitPoint> points) {
  std::vector<LeftOut> all;
  if (points.size() < 4) return all;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const bool beyond = i + 1 == points.size();
    if (!beyond && points[i].bytes < least_left_out) continue;
    std::vector<FitPoint> others(points.begin(), points.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double forecast = fit_pieces(others).seconds(points[i].bytes);
    all.push_back({points[i], forecast, forecast / points[i].seconds - 1, beyond, false});
  }
  const double middle = std::sqrt(std::max(points.front().bytes, least_left_out) * points.back().bytes);
  LeftOut* named = nullptr;
  for (LeftOut& out : all) {
    if (!out.beyond && (!named || std::abs(std::log(out.point.bytes / middle)) < std::abs(std::log(named->point.bytes / middle)))) named = &out;
  }
  if (named) named->named = true;
  return all;
}

}  // namespace faibench::scale
