// t(S) = alpha + beta S, in up to three pieces, by least relative squares. Pure.
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace faibench::scale {

struct FitPoint { double bytes = 0, seconds = 0; };

struct Piece {
  double from_bytes = 0, to_bytes = 0;  ///< of its points
  double alpha = 0, beta = 0;           ///< seconds, seconds a byte; neither negative
};

struct Fit {
  std::vector<Piece> pieces;            ///< ascending; empty where there are fewer than two sizes
  std::vector<double> residuals;        ///< (fitted - measured) / measured of the points it was made from
  double max_residual = 0;              ///< largest of them, without sign
  /// Of the piece that `bytes` is in; past both ends of the nearest one.
  [[nodiscard]] double seconds(double bytes) const;
};

/// Breakpoints by dynamic programming over all cuts; a piece more must have at least three points and lower the Bayesian information criterion. `points` ascend in bytes.
Fit fit_pieces(std::span<const FitPoint> points, int most_pieces = 3);

struct HeldOut {
  Fit fit;                     ///< of all but the largest size
  FitPoint largest;
  double forecast = 0;         ///< seconds
  double error = 0;            ///< forecast / measured - 1
};
/// Empty with fewer than three sizes.
std::optional<HeldOut> forecast_largest(std::span<const FitPoint> points);

}  // namespace faibench::scale
