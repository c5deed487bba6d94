// A matrix of f32 over a mesh [A, P/A]. The inner axis cuts its rows and stays (tensor parallel ranks, next to each other in a node); the outer axis cuts what is left of the rows before and the
// columns after (sequence shards become head shards, from node to node). So a rank has A-1 partners, and A is about the square root of P: what meshes of thousands of ranks ask for. With one axis
// over all ranks every call would be P-1 tiny messages a rank, which no layer of a model sends; and with A-1 partners, all under way at once or nearly so, an algorithm of log A steps (Bruck)
// would save little and move every byte log(A)/2 times. Up to 3 ranks, and where P is prime, all ranks are one group.
// Shapes follow from S and P alone, so that a schedule for 65,536 ranks needs no input and no plan.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "collectives/all2all_tensor_redistribute/ranks.h"
#include "schedule/schedule.h"
#include "schedule/traffic.h"

namespace faibench::all2all_tensor_redistribute {
namespace {

constexpr std::int64_t element = 4;

/// Ranks that exchange with each other: the least divisor of P that is no less than its square root.
std::int64_t group_of(std::int64_t P) {
  std::int64_t size = 1;
  while (size * size < P || P % size != 0) ++size;
  return size;
}

/// The part of the matrix that a group holds: R = rows*A rows, so that all row shards are equal; columns are cut in ceil chunks, of which late ones may be short or empty. As square as S allows.
struct Matrix {
  std::int64_t group, stride, rows, columns, chunk;  ///< A; from member to member, in ranks; rows of a rank before; columns of all; of the first member after
  Matrix(std::int64_t bytes, std::int64_t P) : group(group_of(P)), stride(P / group) {
    const std::int64_t own = std::max<std::int64_t>(1, bytes / element);
    rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(own) / static_cast<double>(group))));
    columns = std::max<std::int64_t>(1, (own + rows / 2) / rows);
    chunk = (columns + group - 1) / group;
  }
  [[nodiscard]] std::int64_t first_column(std::int64_t member) const { return std::min(member * chunk, columns); }
  [[nodiscard]] std::int64_t columns_of(std::int64_t member) const { return first_column(member + 1) - first_column(member); }
  [[nodiscard]] Layout layout() const { return {{rows * group * stride, columns}, {group, stride}, {{1, 0}, {}}, {{1}, {0}}, Dtype::f32}; }
};

/// What `mpi` sends, by the distance from sender to receiver in the group: as many distances a round as `mpi` has partners under way.
class GroupExchange : public Schedule {
 public:
  GroupExchange(const Matrix& matrix, int ranks) : Schedule({element, element, element, element, element}), matrix_(matrix), ranks_(ranks) {}
  std::string algorithm() const override { return "direct exchange in groups"; }
  int ranks() const override { return ranks_; }
  int rounds() const override { return static_cast<int>(std::max<std::int64_t>(1, (matrix_.group - 1 + most_under_way - 1) / most_under_way)); }
  std::array<std::int64_t, buffer_kinds> room(int rank) const override {
    return {matrix_.rows * matrix_.columns, matrix_.rows * matrix_.group * matrix_.columns_of(rank / matrix_.stride), 0, 0, 0};
  }
  Round round(int rank, int index) const override {
    const std::int64_t A = matrix_.group, own = rank / matrix_.stride, first = std::int64_t{index} * most_under_way + 1, past = std::min(A, first + most_under_way);
    const auto rank_of = [&](std::int64_t member) { return static_cast<int>(member * matrix_.stride + rank % matrix_.stride); };
    Round round;
    for (std::int64_t distance = first; distance < past; ++distance) {
      const std::int64_t to = (own + distance) % A, from = (own - distance + A) % A;
      if (matrix_.columns_of(to) > 0) round.sends.push_back({rank_of(to), packed(own, to).first, packed(own, to).second});
      if (matrix_.columns_of(own) > 0) round.receives.push_back({rank_of(from), packed(from, own).second, packed(from, own).first});
    }
    return round;
  }

 private:
  /// Where a message lies packed: with its sender, with its receiver.
  [[nodiscard]] std::pair<Region, Region> packed(std::int64_t from, std::int64_t to) const {
    const std::int64_t count = matrix_.rows * matrix_.columns_of(to);
    return {{Buffer::input, matrix_.rows * matrix_.first_column(to), count}, {Buffer::output, from * count, count}};
  }
  Matrix matrix_;
  int ranks_;
};

}  // namespace

MultiRank::Scaling rank_scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {4, 64, 1000, 4 << 10, 64 << 10, 100'000, 1 << 20, 4 << 20, 10'000'000, 16 << 20, 64 << 20};
  scaling.inputs = [](Random& random, int ranks, std::int64_t bytes) { return described_input(random, Matrix(bytes, ranks).layout()); };
  scaling.size_of = [](const TensorMap& described, int) {
    const Layout layout = layout_of(refs(described));
    return box_of(layout, layout.source, 0).elements() * size_of(layout.dtype);
  };
  scaling.size_text = "bytes that a rank holds: row shards of an f32 matrix become column shards, in groups of the least divisor of P that is no less than its square root";
  scaling.bus_formula = "(A-1)/A, A ranks in a group";
  scaling.bus_factor = [](int ranks) {
    const auto A = static_cast<double>(group_of(ranks));
    return (A - 1) / A;
  };
  scaling.schedule = [](std::int64_t bytes, const NodeMap& nodes) { return std::shared_ptr<const Schedule>(std::make_shared<GroupExchange>(Matrix(bytes, nodes.ranks()), nodes.ranks())); };
  // Latency-bandwidth model (alpha + n*beta a message, after Hockney; LogP's L): messages to different partners do not depend on each other, so all may travel at once, and their latencies pass
  // together: one alpha, however many partners. What a message costs its sender beside latency and bytes (LogP's o and g) is not alpha, and a bound may leave it out. The bytes through a rank's
  // link, one direction, do add up: the first member has the most columns and receives the most, the last has the fewest and keeps the least of what it held.
  scaling.bound = [](std::int64_t bytes, int ranks) {
    const Matrix matrix(bytes, ranks);
    const std::int64_t in = matrix.rows * (matrix.group - 1) * matrix.columns_of(0), out = matrix.rows * (matrix.columns - matrix.columns_of(matrix.group - 1));
    if (matrix.group == 1) return LowerBound{0, 0, "nothing to send"};
    return LowerBound{1, static_cast<double>(element * std::max(in, out)), "alpha + max over ranks of max(bytes in, bytes out)*beta: all messages may travel at once"};
  };
  return scaling;
}

}  // namespace faibench::all2all_tensor_redistribute
