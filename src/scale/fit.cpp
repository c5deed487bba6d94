#include "scale/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace faibench::scale {
namespace {

constexpr std::size_t least_points = 3;      // of a piece, where there are several
constexpr double resolution = 0.01;          // medians are no better than that: closer fits explain noise

struct Line { double alpha = 0, beta = 0, squares = 0; };

double relative_squares(std::span<const FitPoint> points, double alpha, double beta) {
  double sum = 0;
  for (const FitPoint& p : points) {
    const double r = (alpha + beta * p.bytes) / p.seconds - 1;
    sum += r * r;
  }
  return sum;
}

// Weights 1/t^2: a relative error counts the same at every size.
Line fit_line(std::span<const FitPoint> points) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const FitPoint& p : points) {
    const double weight = 1 / (p.seconds * p.seconds);
    w += weight;
    x += weight * p.bytes;
    y += weight * p.seconds;
    xx += weight * p.bytes * p.bytes;
    xy += weight * p.bytes * p.seconds;
  }
  const double determinant = w * xx - x * x;
  Line line;
  line.beta = determinant > 1e-12 * w * xx ? (w * xy - x * y) / determinant : 0;
  line.alpha = (y - line.beta * x) / w;
  if (line.beta < 0) line = {y / w, 0, 0};
  if (line.alpha < 0) line = {0, xy / xx, 0};
  line.squares = relative_squares(points, line.alpha, line.beta);
  return line;
}

}  // namespace

double Fit::seconds(double bytes) const {
  for (const Piece& piece : pieces) {
    if (bytes <= piece.to_bytes || &piece == &pieces.back()) return piece.alpha + piece.beta * bytes;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Fit fit_pieces(std::span<const FitPoint> points, int most_pieces) {
  const std::size_t n = points.size();
  Fit fit;
  if (n < 2) return fit;
  const double infinite = std::numeric_limits<double>::infinity();
  const auto most = static_cast<std::size_t>(std::max(1, most_pieces));
  // best[k][j]: least squares of the first j points in k+1 pieces; cut[k][j]: where the last of them begins.
  std::vector<std::vector<double>> best(most, std::vector<double>(n + 1, infinite));
  std::vector<std::vector<std::size_t>> cut(most, std::vector<std::size_t>(n + 1, 0));
  for (std::size_t j = 2; j <= n; ++j) best[0][j] = fit_line(points.first(j)).squares;
  for (std::size_t k = 1; k < most; ++k) {
    for (std::size_t j = (k + 1) * least_points; j <= n; ++j) {
      for (std::size_t i = k * least_points; i + least_points <= j; ++i) {
        const double squares = best[k - 1][i] + fit_line(points.subspan(i, j - i)).squares;
        if (squares < best[k][j]) {
          best[k][j] = squares;
          cut[k][j] = i;
        }
      }
    }
  }
  std::size_t chosen = 0;
  double least = infinite;
  const auto count = static_cast<double>(n);
  for (std::size_t k = 0; k < most; ++k) {
    if (!std::isfinite(best[k][n])) continue;
    const double criterion = count * std::log(best[k][n] / count + resolution * resolution) + static_cast<double>(3 * k + 2) * std::log(count);
    if (criterion < least) {
      least = criterion;
      chosen = k;
    }
  }
  std::size_t end = n;
  for (std::size_t k = chosen + 1; k-- > 0;) {
    const std::size_t start = k == 0 ? 0 : cut[k][end];
    const Line line = fit_line(points.subspan(start, end - start));
    fit.pieces.insert(fit.pieces.begin(), {points[start].bytes, points[end - 1].bytes, line.alpha, line.beta});
    end = start;
  }
  for (const FitPoint& p : points) {
    fit.residuals.push_back(fit.seconds(p.bytes) / p.seconds - 1);
    fit.max_residual = std::max(fit.max_residual, std::abs(fit.residuals.back()));
  }
  return fit;
}

std::optional<HeldOut> forecast_largest(std::span<const FitPoint> points) {
  if (points.size() < 3) return std::nullopt;
  HeldOut held;
  held.fit = fit_pieces(points.first(points.size() - 1));
  held.largest = points.back();
  held.forecast = held.fit.seconds(held.largest.bytes);
  held.error = held.forecast / held.largest.seconds - 1;
  return held;
}

}  // namespace faibench::scale
