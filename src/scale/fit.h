// t(S) = alpha + beta S in regimes, fitted to medians: a continuous piecewise line as in PLogP (Kielmann, Bal, Verstoep 2000) and in SMPI's calibration (Clauss et al. 2011), where an eager protocol gives way to
// a rendezvous and caches to memory. Pure.
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace faibench::scale {

struct FitPoint { double bytes = 0, seconds = 0; };

struct Piece {
  double from_bytes = 0, to_bytes = 0;
  double alpha = 0, beta = 0;           ///< seconds, seconds a byte; neither negative
};

struct Fit {
  std::vector<Piece> pieces;            ///< ascending, each begins where the one before ends, at the same time; empty where there are fewer than two sizes
  std::vector<double> residuals;        ///< (fitted - measured) / measured of the points it was made from
  double median_residual = 0, max_residual = 0;  ///< without sign
  /// Of the piece that `bytes` is in; past both ends of the nearest one.
  [[nodiscard]] double seconds(double bytes) const;
};

/// Least relative squares with Huber's weights, so that no disturbed size bends the others. Breaks are at sizes that were timed; one more must lower the Bayesian information criterion. `points` ascend in bytes.
Fit fit_pieces(std::span<const FitPoint> points, int most_pieces = 4);

/// A size that was left out of the fit.
struct LeftOut {
  FitPoint point;
  double forecast = 0;         ///< seconds, by a fit of all other sizes
  double error = 0;            ///< forecast / measured - 1
  bool beyond = false;         ///< the largest size: extrapolated
  bool named = false;          ///< the one that stands for the others, chosen by its size alone: nearest to the middle on a logarithmic scale
};
/// Each size from 4 KiB on but the first, left out in turn; the largest last. Empty with fewer than four sizes.
std::vector<LeftOut> leave_one_out(std::span<const FitPoint> points);

}  // namespace faibench::scale
