#include "schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "schedule/traffic.h"
#include "tensor/error.h"

namespace faibench {
namespace {

constexpr AllReduce all_reduces[] = {AllReduce::one_shot, AllReduce::two_shot, AllReduce::raw_halving, AllReduce::recursive_doubling, AllReduce::halving_doubling, AllReduce::ring,
                                     AllReduce::hierarchical};
constexpr AllGather all_gathers[] = {AllGather::direct, AllGather::ring, AllGather::log_step};

std::vector<int> rank_counts() {
  std::vector<int> counts(17);
  std::iota(counts.begin(), counts.end(), 1);
  counts.insert(counts.end(), {32, 33, 64});
  return counts;
}
std::vector<std::int64_t> element_counts(int ranks) { return {0, 1, ranks - 1, ranks, 1000}; }
/// Everything on one node, a node a rank, and two ranks a node where that divides.
std::vector<NodeMap> node_maps(int ranks) {
  std::vector<NodeMap> maps = {NodeMap::regular(ranks, ranks), NodeMap::regular(ranks, 1)};
  for (int per_node : {2, 3, 8})
    if (ranks % per_node == 0 && ranks > per_node) maps.push_back(NodeMap::regular(ranks, per_node));
  return maps;
}

/// All ranks of a schedule in one process, on any type of number. A read of what nobody wrote is a failure.
template <class T>
class Interpreter {
 public:
  explicit Interpreter(const Schedule& schedule) : schedule_(schedule), ranks_(static_cast<std::size_t>(schedule.ranks())) {
    for (int rank = 0; rank < schedule.ranks(); ++rank)
      for (std::size_t b = 0; b < buffer_kinds; ++b) ranks_[static_cast<std::size_t>(rank)][b].resize(static_cast<std::size_t>(schedule.room(rank)[b]));
  }
  std::vector<std::optional<T>>& buffer(int rank, Buffer buffer) { return ranks_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(buffer)]; }

  /// add(sum so far, term).
  template <class Add>
  void run(Add add) {
    for (int index = 0; index < schedule_.rounds(); ++index) {
      std::vector<Round> rounds;  // messages read what was there before the round
      for (int rank = 0; rank < schedule_.ranks(); ++rank) rounds.push_back(schedule_.round(rank, index));
      struct Landing { int rank; Region region; std::vector<std::optional<T>> values; };
      std::vector<Landing> landings;
      for (int rank = 0; rank < schedule_.ranks(); ++rank)
        for (const Message& m : rounds[static_cast<std::size_t>(rank)].sends) landings.push_back({m.peer, m.there, values(rank, m.here)});
      for (const Landing& landing : landings)
        for (std::int64_t i = 0; i < landing.region.count; ++i) at(landing.rank, landing.region, i) = landing.values[static_cast<std::size_t>(i)];
      for (int rank = 0; rank < schedule_.ranks(); ++rank)
        for (const Sum& sum : rounds[static_cast<std::size_t>(rank)].sums) run_sum(rank, sum, add);
    }
  }
  int unset_reads() const { return unset_reads_; }

 private:
  std::optional<T>& at(int rank, const Region& region, std::int64_t i) { return buffer(rank, region.buffer).at(static_cast<std::size_t>(region.offset + i)); }
  std::vector<std::optional<T>> values(int rank, const Region& region) {
    std::vector<std::optional<T>> all;
    for (std::int64_t i = 0; i < region.count; ++i) {
      all.push_back(at(rank, region, i));
      if (!all.back()) ++unset_reads_;
    }
    return all;
  }
  template <class Add>
  void run_sum(int rank, const Sum& sum, Add add) {
    std::vector<std::optional<T>> total = values(rank, sum.terms[0]);
    for (std::size_t t = 1; t < sum.terms.size(); ++t) {
      const auto term = values(rank, sum.terms[t]);
      for (std::size_t i = 0; i < total.size(); ++i)
        if (total[i] && term[i]) total[i] = add(*total[i], *term[i]);
    }
    for (std::size_t i = 0; i < total.size(); ++i) at(rank, sum.into, static_cast<std::int64_t>(i)) = total[i];
  }

  const Schedule& schedule_;
  std::vector<std::array<std::vector<std::optional<T>>, buffer_kinds>> ranks_;
  int unset_reads_ = 0;
};

double input_at(int rank, std::int64_t i) { return static_cast<double>((rank + 1) * 1000 + i * 7 % 101); }

TEST(AllReduceSchedule, is_sound_and_sums_on_every_rank_for_every_rank_count_and_length) {
  for (const int P : rank_counts())
    for (const NodeMap& nodes : node_maps(P))
      for (const AllReduce algorithm : all_reduces)
        for (const std::int64_t count : element_counts(P)) {
          SCOPED_TRACE(testing::Message() << name_of(algorithm) << ", " << P << " ranks on " << nodes.nodes() << " nodes, " << count << " elements");
          const auto schedule = all_reduce_schedule(algorithm, count, nodes, 2, 4);
          ASSERT_EQ(fault_in(*schedule), std::nullopt);
          if (P > 17 && count == 1000 && algorithm == AllReduce::one_shot) continue;  // 4 million additions that say nothing new
          Interpreter<double> all(*schedule);
          for (int rank = 0; rank < P; ++rank)
            for (std::int64_t i = 0; i < count; ++i) all.buffer(rank, Buffer::input)[static_cast<std::size_t>(i)] = input_at(rank, i);
          all.run(std::plus<double>());
          ASSERT_EQ(all.unset_reads(), 0);
          for (int rank = 0; rank < P; ++rank)
            for (std::int64_t i = 0; i < count; ++i) {
              double sum = 0;
              for (int p = 0; p < P; ++p) sum += input_at(p, i);
              ASSERT_EQ(all.buffer(rank, Buffer::output)[static_cast<std::size_t>(i)], sum) << "rank " << rank << ", element " << i;
            }
        }
}

/// The expression that a sum is: "((0+1)+2)".
TEST(AllReduceSchedule, ordered_algorithms_add_in_ascending_rank_and_the_others_alike_on_all_ranks) {
  for (const int P : {1, 2, 3, 4, 5, 6, 7, 8, 12})
    for (const NodeMap& nodes : node_maps(P))
      for (const AllReduce algorithm : all_reduces) {
        SCOPED_TRACE(testing::Message() << name_of(algorithm) << ", " << P << " ranks on " << nodes.nodes() << " nodes");
        const std::int64_t count = P + 1;
        const auto schedule = all_reduce_schedule(algorithm, count, nodes, 2, 4);
        Interpreter<std::string> all(*schedule);
        for (int rank = 0; rank < P; ++rank)
          for (auto& value : all.buffer(rank, Buffer::input)) value = std::to_string(rank);
        all.run([](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; });
        std::string ascending = "0";
        for (int p = 1; p < P; ++p) ascending = "(" + ascending + "+" + std::to_string(p) + ")";
        const auto& first = all.buffer(0, Buffer::output);
        for (int rank = 0; rank < P; ++rank) {
          const auto& output = all.buffer(rank, Buffer::output);
          EXPECT_EQ(output, first) << "rank " << rank;
          if (algorithm == AllReduce::one_shot || algorithm == AllReduce::two_shot || algorithm == AllReduce::raw_halving) {
            EXPECT_THAT(output, testing::Each(testing::Optional(ascending)));
          }
        }
      }
}

std::int64_t all_sent(const Schedule& schedule, const NodeMap& nodes) {
  std::int64_t bytes = 0;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const Traffic traffic = traffic_of(schedule, nodes, rank);
    bytes += traffic.bytes_sent[0] + traffic.bytes_sent[1];
  }
  return bytes;
}

TEST(AllReduceSchedule, moves_the_bytes_of_the_closed_formulas_in_as_many_rounds) {
  for (const int P : rank_counts()) {
    if (P == 1) continue;
    const NodeMap nodes = NodeMap::regular(P, 1);
    const std::int64_t L = 960 * P, w = 2, s = 4;  // divisible by everything that cuts
    const auto schedule = [&](AllReduce algorithm) { return all_reduce_schedule(algorithm, L, nodes, w, s); };
    const std::int64_t Q = std::bit_floor(static_cast<unsigned>(P)), extra = P - Q, k = std::countr_zero(static_cast<unsigned>(Q));
    EXPECT_EQ(all_sent(*schedule(AllReduce::one_shot), nodes), P * (P - 1) * L * w) << P;
    EXPECT_EQ(schedule(AllReduce::one_shot)->rounds(), 1);
    EXPECT_EQ(all_sent(*schedule(AllReduce::two_shot), nodes), 2 * (P - 1) * L * w) << P;
    EXPECT_EQ(schedule(AllReduce::two_shot)->rounds(), 2);
    // A piece's sum makes one step raw and P-2 as a sum under way; each of P pieces is L/P.
    EXPECT_EQ(all_sent(*schedule(AllReduce::ring), nodes), L * (w + (P - 2) * s) + (P - 1) * L * w) << P;
    EXPECT_EQ(schedule(AllReduce::ring)->rounds(), 2 * (P - 1));
    // What is folded travels raw, comes back finished; folded ranks then send sums where others send raw elements.
    const std::int64_t fold = 2 * extra * L * w, first = (extra * s + (Q - extra) * w);
    EXPECT_EQ(all_sent(*schedule(AllReduce::recursive_doubling), nodes), fold + first * L + (k - 1) * Q * L * s) << P;
    EXPECT_EQ(schedule(AllReduce::recursive_doubling)->rounds(), k + (extra ? 2 : 0));
    if (L % Q == 0) {
      EXPECT_EQ(all_sent(*schedule(AllReduce::halving_doubling), nodes), fold + first * L / 2 + Q * (L / 2 - L / Q) * s + (Q - 1) * L * w) << P;
    }
    EXPECT_EQ(schedule(AllReduce::halving_doubling)->rounds(), 2 * k + (extra ? 2 : 0));
  }
}

TEST(AllReduceSchedule, crosses_the_network_with_a_slice_a_rail) {
  const NodeMap nodes = NodeMap::regular(32, 8);
  const std::int64_t L = 32 * 100;
  const auto schedule = all_reduce_schedule(AllReduce::hierarchical, L, nodes, 4, 4);
  for (int rank = 0; rank < 32; ++rank) {
    const Traffic traffic = traffic_of(*schedule, nodes, rank);
    EXPECT_EQ(traffic.bytes_sent[1], 2 * 3 * L / 4 / 8 * 4);  // 2(M-1)/M n/L
    EXPECT_EQ(traffic.bytes_sent[0], 2 * 7 * L / 8 * 4);      // 2(L-1)/L n
    EXPECT_EQ(traffic.partners, 7 + 3);
  }
  EXPECT_EQ(schedule->rounds(), 4);
}

TEST(AllReduceSchedule, refuses_hierarchical_on_uneven_nodes) {
  EXPECT_THROW(all_reduce_schedule(AllReduce::hierarchical, 10, NodeMap::regular(5, 2), 4, 4), Error);
}

std::vector<std::vector<std::int64_t>> block_sizes(int P) {
  std::vector<std::int64_t> even(static_cast<std::size_t>(P), 3), ragged, lone(static_cast<std::size_t>(P), 0);
  for (int rank = 0; rank < P; ++rank) ragged.push_back(rank * 7 % 5);  // every fifth is empty
  lone.back() = 9;
  return {even, ragged, lone, std::vector<std::int64_t>(static_cast<std::size_t>(P), 0)};
}

TEST(AllGatherSchedule, brings_every_block_to_its_place_on_every_rank) {
  for (const int P : rank_counts())
    for (const AllGather algorithm : all_gathers)
      for (const auto& counts : block_sizes(P)) {
        const NodeMap nodes = NodeMap::regular(P, 1);
        SCOPED_TRACE(testing::Message() << name_of(algorithm) << ", " << P << " ranks, " << testing::PrintToString(counts));
        const auto schedule = all_gather_schedule(algorithm, counts, nodes, 4);
        ASSERT_EQ(fault_in(*schedule), std::nullopt);
        Interpreter<int> all(*schedule);
        std::vector<std::optional<int>> whole;
        for (int rank = 0; rank < P; ++rank)
          for (std::int64_t i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i) {
            all.buffer(rank, Buffer::input)[static_cast<std::size_t>(i)] = rank * 100 + static_cast<int>(i);
            whole.push_back(rank * 100 + static_cast<int>(i));
          }
        all.run(std::plus<int>());
        ASSERT_EQ(all.unset_reads(), 0);
        for (int rank = 0; rank < P; ++rank) ASSERT_EQ(all.buffer(rank, Buffer::output), whole) << "rank " << rank;
        const std::int64_t n = static_cast<std::int64_t>(whole.size());
        EXPECT_EQ(all_sent(*schedule, nodes), (P - 1) * n * 4);  // every block to every other rank, once
      }
  for (const int P : rank_counts()) {
    if (P == 1) continue;
    const std::vector<std::int64_t> counts(static_cast<std::size_t>(P), 1);
    const NodeMap nodes = NodeMap::regular(P, 1);
    EXPECT_EQ(all_gather_schedule(AllGather::direct, counts, nodes, 4)->rounds(), 1);
    EXPECT_EQ(all_gather_schedule(AllGather::ring, counts, nodes, 4)->rounds(), P - 1);
    EXPECT_EQ(all_gather_schedule(AllGather::log_step, counts, nodes, 4)->rounds(), static_cast<int>(std::ceil(std::log2(P))));
  }
}

/// Rank f sends t (f*5 + t) mod 4 elements where that is not 0; both sides can tell.
std::vector<PairTraffic> some_pairs(int P, int rank) {
  const auto amount = [](int from, int to) { return from == to ? 0 : (from * 5 + to) % 4; };
  std::vector<PairTraffic> pairs;
  for (int from = 0; from < P; ++from)
    for (int to = 0; to < P; ++to) {
      if ((from != rank && to != rank) || amount(from, to) == 0) continue;
      std::int64_t before = 0, ahead = 0;
      for (int t = 0; t < to; ++t) before += amount(from, t);
      for (int f = 0; f < from; ++f) ahead += amount(f, to);
      pairs.push_back({from, to, before, ahead, amount(from, to)});
    }
  return pairs;
}

TEST(AllToAllSchedule, delivers_each_pair_and_keeps_to_its_window) {
  for (const int P : {1, 2, 3, 4, 5, 7, 8, 13})
    for (const int window : {1, 3, 100}) {
      SCOPED_TRACE(testing::Message() << P << " ranks, window " << window);
      std::vector<std::array<std::int64_t, 2>> room;
      for (int rank = 0; rank < P; ++rank) {
        std::array<std::int64_t, 2> own = {0, 0};
        for (const PairTraffic& pair : some_pairs(P, rank)) own[pair.from == rank ? 0 : 1] += pair.count;
        room.push_back(own);
      }
      const auto schedule = all_to_all_schedule(P, [P](int rank) { return some_pairs(P, rank); }, room, window, 8);
      ASSERT_EQ(fault_in(*schedule), std::nullopt);
      Interpreter<int> all(*schedule);
      for (int rank = 0; rank < P; ++rank)
        for (const PairTraffic& pair : some_pairs(P, rank))
          for (std::int64_t i = 0; pair.from == rank && i < pair.count; ++i) all.buffer(rank, Buffer::input)[static_cast<std::size_t>(pair.from_offset + i)] = pair.from * 1000 + pair.to * 10 + static_cast<int>(i);
      all.run(std::plus<int>());
      for (int rank = 0; rank < P; ++rank) {
        EXPECT_LE(traffic_of(*schedule, NodeMap::regular(P, 1), rank).most_incoming, window);
        for (const PairTraffic& pair : some_pairs(P, rank))
          for (std::int64_t i = 0; pair.to == rank && i < pair.count; ++i) EXPECT_EQ(all.buffer(rank, Buffer::output)[static_cast<std::size_t>(pair.to_offset + i)], pair.from * 1000 + pair.to * 10 + static_cast<int>(i));
      }
    }
}

/// Rank 0 tells of a longer message than rank 1 knows of.
TEST(FaultIn, names_rank_round_and_both_sides_of_a_mismatch) {
  const auto pairs = [](int rank) { return std::vector<PairTraffic>{{0, 1, 0, 0, rank == 0 ? 5 : 4}}; };
  const std::array<std::int64_t, 2> room[] = {{5, 0}, {0, 5}};
  const auto fault = fault_in(*all_to_all_schedule(2, pairs, room, 1, 4));
  ASSERT_TRUE(fault.has_value());
  EXPECT_THAT(*fault, testing::AllOf(testing::HasSubstr("rank 0, round 0"), testing::HasSubstr("+5"), testing::HasSubstr("+4")));
}

TEST(FaultIn, sees_a_message_past_the_room_and_one_that_nobody_expects) {
  const std::array<std::int64_t, 2> small[] = {{4, 0}, {0, 5}};
  EXPECT_THAT(fault_in(*all_to_all_schedule(2, [](int) { return std::vector<PairTraffic>{{0, 1, 0, 0, 5}}; }, small, 1, 4)).value_or(""), testing::HasSubstr("inside the room"));
  const std::array<std::int64_t, 2> room[] = {{5, 0}, {0, 5}};
  const auto one_sided = [](int rank) { return rank == 0 ? std::vector<PairTraffic>{{0, 1, 0, 0, 5}} : std::vector<PairTraffic>{}; };
  EXPECT_THAT(fault_in(*all_to_all_schedule(2, one_sided, room, 1, 4)).value_or(""), testing::HasSubstr("1 here, 0 there"));
}

TEST(FaultIn, sees_two_messages_that_arrive_in_one_place) {
  const auto pairs = [](int rank) {
    std::vector<PairTraffic> all;
    for (int from : {0, 1})
      if (rank == 2 || rank == from) all.push_back({from, 2, 0, 2 * from, 3});
    return all;
  };
  const std::array<std::int64_t, 2> room[] = {{3, 0}, {3, 0}, {0, 5}};
  EXPECT_THAT(fault_in(*all_to_all_schedule(3, pairs, room, 2, 4)).value_or(""), testing::HasSubstr("overlap"));
}

const CostModel two_levels{{1e-6, 5e-6}, {1e-10, 1e-9}, 1e-11, {1e-7, 5e-7}};

TEST(LowerBoundSeconds, is_never_above_a_forecast) {
  for (const int P : rank_counts())
    for (const NodeMap& nodes : node_maps(P))
      for (const std::int64_t count : element_counts(P)) {
        for (const AllReduce algorithm : all_reduces) {
          const auto schedule = all_reduce_schedule(algorithm, count, nodes, 4, 4);
          const LowerBound bound = all_reduce_bound(count * 4, P);
          EXPECT_LE(bound_seconds(bound, nodes, two_levels), predicted_seconds(*schedule, nodes, two_levels) * (1 + 1e-12)) << name_of(algorithm) << ", " << P << " ranks on " << nodes.nodes() << " nodes, " << count;
          std::int64_t most = 0;
          for (int rank = 0; rank < P; ++rank) {
            const Traffic traffic = traffic_of(*schedule, nodes, rank);
            most = std::max(most, traffic.bytes_received[0] + traffic.bytes_received[1]);
          }
          EXPECT_LE(bound.bytes, static_cast<double>(most) * (1 + 1e-12)) << name_of(algorithm) << ", " << P << " ranks, " << count;
        }
        const std::vector<std::int64_t> counts(static_cast<std::size_t>(P), count);
        std::vector<std::int64_t> bytes;
        for (std::int64_t c : counts) bytes.push_back(4 * c);
        for (const AllGather algorithm : all_gathers) {
          EXPECT_LE(bound_seconds(all_gather_bound(bytes), nodes, two_levels), predicted_seconds(*all_gather_schedule(algorithm, counts, nodes, 4), nodes, two_levels) * (1 + 1e-12)) << name_of(algorithm) << " of " << P;
        }
      }
}

TEST(BestAllReduce, is_short_for_few_bytes_and_moves_little_for_many) {
  const NodeMap nodes = NodeMap::regular(1024, 8);
  EXPECT_EQ(best_all_reduce(1, nodes, 4, 4, two_levels, false), AllReduce::recursive_doubling);
  EXPECT_EQ(best_all_reduce(std::int64_t{1} << 24, nodes, 4, 4, two_levels, false), AllReduce::hierarchical);
  EXPECT_EQ(best_all_reduce(std::int64_t{1} << 24, nodes, 4, 4, two_levels, true), AllReduce::two_shot);
  EXPECT_EQ(best_all_reduce(1, NodeMap::regular(2, 2), 4, 4, two_levels, true), AllReduce::one_shot);
}

TEST(BestAllGather, takes_few_rounds_for_few_bytes) {
  const std::vector<std::int64_t> counts(1024, 1);
  EXPECT_EQ(best_all_gather(counts, NodeMap::regular(1024, 8), 8, two_levels), AllGather::log_step);
}

}  // namespace
}  // namespace faibench
