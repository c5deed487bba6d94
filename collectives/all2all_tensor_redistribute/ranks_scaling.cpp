// A matrix of f32 from row shards to column shards. Shapes follow from S and P alone, so that a schedule for 65,536 ranks needs no input and no plan.
#include <algorithm>
#include <cmath>
#include <memory>

#include "collectives/all2all_tensor_redistribute/ranks.h"
#include "schedule/schedule.h"
#include "schedule/traffic.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

constexpr std::int64_t element = 4;
constexpr int window = 8;  // partners a round, each way

/// R = rows*P, so that all row shards are equal; columns are cut in ceil chunks, of which late ones may be short or empty. As square as S allows.
struct Matrix {
  std::int64_t ranks, rows, columns, chunk;  ///< rows of a rank; columns of all; of the first rank
  Matrix(std::int64_t bytes, std::int64_t P) : ranks(P) {
    const std::int64_t own = std::max<std::int64_t>(1, bytes / element);
    rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(own) / static_cast<double>(P))));
    columns = std::max<std::int64_t>(1, (own + rows / 2) / rows);
    chunk = (columns + P - 1) / P;
  }
  [[nodiscard]] std::int64_t first_column(std::int64_t rank) const { return std::min(rank * chunk, columns); }
  [[nodiscard]] std::int64_t columns_of(std::int64_t rank) const { return first_column(rank + 1) - first_column(rank); }
  [[nodiscard]] PairTraffic pair(int from, int to) const {
    return {from, to, rows * first_column(to), from * rows * columns_of(to), rows * columns_of(to)};
  }
};

}  // namespace

MultiRank::Scaling rank_scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {4, 64, 1000, 4 << 10, 64 << 10, 100'000, 1 << 20, 4 << 20, 10'000'000, 16 << 20, 64 << 20};
  scaling.inputs = [](Random& random, int ranks, std::int64_t bytes) {
    const Matrix matrix(bytes, ranks);
    return whole_input(random, {{matrix.rows * ranks, matrix.columns}, {ranks}, {{0}, {}}, {{}, {0}}, Dtype::f32});
  };
  scaling.size_of = [](const TensorMap& whole, int) { return whole.at("src_offsets").flat<std::int64_t>()[1] * size_of(whole.at("src_data").dtype()); };
  scaling.size_text = "bytes that a rank holds: row shards of an f32 matrix become column shards";
  scaling.bus_formula = "(P-1)/P";
  scaling.bus_factor = [](int ranks) { return static_cast<double>(ranks - 1) / ranks; };
  scaling.schedule = [](std::int64_t bytes, const NodeMap& nodes) {
    const int P = nodes.ranks();
    const Matrix matrix(bytes, P);
    std::vector<std::array<std::int64_t, 2>> room;
    for (int rank = 0; rank < P; ++rank) room.push_back({matrix.rows * matrix.columns, matrix.rows * P * matrix.columns_of(rank)});
    const PairsOf pairs = [matrix, P](int rank) {
      std::vector<PairTraffic> found;
      const auto receive_from = [&](int first, int past) {
        for (int from = first; from < past && matrix.columns_of(rank) > 0; ++from) found.push_back(matrix.pair(from, rank));
      };
      receive_from(0, rank);
      for (int to = 0; to < P && matrix.columns_of(to) > 0; ++to)
        if (to != rank) found.push_back(matrix.pair(rank, to));
      receive_from(rank + 1, P);
      return found;
    };
    return std::shared_ptr<const Schedule>(all_to_all_schedule(P, pairs, room, window, element));
  };
  // The first rank has the most columns and receives the most; the last has the fewest and keeps the least of what it held.
  scaling.bound = [](std::int64_t bytes, int ranks) {
    const Matrix matrix(bytes, ranks);
    const std::int64_t in = matrix.rows * (ranks - 1) * matrix.columns_of(0), out = matrix.rows * (matrix.columns - matrix.columns_of(ranks - 1));
    return LowerBound{ranks - 1, ranks > 1 ? static_cast<double>(element * std::max(in, out)) : 0.0, "partners*alpha + max over ranks of max(bytes in, bytes out)*beta"};
  };
  return scaling;
}

}  // namespace faibench::all2all_tensor_redistribute
