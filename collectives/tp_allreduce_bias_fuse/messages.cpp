// Direct reduce-scatter and all-gather of the elements as they are: each element is added once, in ascending rank, by ordered_sum(), so that the bits are those of the one-process
// form for every P, size and part. Bytes sent by a rank: 2*(P-1)/P*L*s; an f32 all-reduce of 16-bit partials sends twice that. Parts are cut so that every rank's share
// of them adds up to its piece of the whole: what travels is what the schedule of the whole says.
#include "collectives/tp_allreduce_bias_fuse/messages.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "schedule/executor.h"

namespace faibench::tp_allreduce_bias_fuse {
namespace {

constexpr std::int64_t short_bytes = 64 << 10;     // below, latency counts and not how bytes are shared out
constexpr std::int64_t part_bytes = 1 << 20;       // of a rank's piece
constexpr int parts_under_way = 2;

bool by_nodes(std::int64_t bytes, const NodeMap& nodes, bool ordered) { return bytes >= short_bytes && !ordered && nodes.nodes() > 1 && nodes.uniform() && nodes.members(0).size() > 1; }

/// For a short vector: what takes least at the prices of a usual cluster. Whole partials to all are one round of P-1 messages, which is little for few ranks and a flood for many. By doubling the order of
/// terms is not that of the ranks: only where sums cross nodes anyway. A closed form, because a call may take no longer than this may cost; the same on every rank.
AllReduce short_sum(std::int64_t bytes, std::int64_t partial_bytes, const NodeMap& nodes, bool ordered) {
  struct Prices { double message, byte, further; };
  constexpr Prices in_node{1e-6, 1e-10, 1e-7}, between{5e-6, 8e-11, 3e-7};
  const Prices& far = nodes.nodes() > 1 ? between : in_node;
  const int P = nodes.ranks();
  const auto n = static_cast<double>(bytes);
  const double one_shot = far.message + (P - 2) * far.further + (P - 1) * n * far.byte, two_shot = 2 * (far.message + (P - 2) * far.further + n * far.byte);
  if (!ordered && nodes.nodes() > 1) {
    const auto doublings = [](std::size_t ranks) { return std::countr_zero(std::bit_floor(ranks)); };
    const int outside = doublings(static_cast<std::size_t>(nodes.nodes())), inside = doublings(nodes.members(0).size()), folds = std::has_single_bit(static_cast<unsigned>(P)) ? 0 : 2;
    const double doubling = inside * in_node.message + (outside + folds) * between.message + (inside + outside + folds) * static_cast<double>(partial_bytes) * between.byte;
    if (doubling < std::min(one_shot, two_shot)) return AllReduce::recursive_doubling;
  }
  return one_shot <= two_shot ? AllReduce::one_shot : AllReduce::two_shot;
}

/// Sums of a node's ranks, and of nodes: f32 under way, in blocks that stay in the first cache.
template <class T>
void add_partials(const SumCall& call, const WrappedBias<T>& bias, std::int64_t first) {
  constexpr std::int64_t block = 512;
  std::int64_t column = (first + call.offset) % bias.N();
  for (std::int64_t i = 0; i < call.count; i += block) {
    float sum[block];
    const std::int64_t n = std::min(block, call.count - i);
    for (std::size_t t = 0; t < call.terms.size(); ++t) {
      const auto& term = call.terms[t];
      const bool wide = term.buffer == Buffer::partial || term.buffer == Buffer::arrived_partial;
      const float* const f = static_cast<const float*>(term.data) + i;
      const T* const x = static_cast<const T*>(term.data) + i;
      if (t == 0 && wide) for (std::int64_t k = 0; k < n; ++k) sum[k] = f[k];
      else if (t == 0) for (std::int64_t k = 0; k < n; ++k) sum[k] = to_float(x[k]);
      else if (wide) for (std::int64_t k = 0; k < n; ++k) sum[k] += f[k];
      else for (std::int64_t k = 0; k < n; ++k) sum[k] += to_float(x[k]);
    }
    if (call.into_buffer == Buffer::output) {
      T* const y = static_cast<T*>(call.into) + i;
      for (std::int64_t k = 0; k < n; ++k) {
        y[k] = round_to<T>(sum[k] + to_float(*bias.at(column)));
        if (++column == bias.N()) column = 0;
      }
    } else {
      std::copy(sum, sum + n, static_cast<float*>(call.into) + i);
    }
  }
}

template <class T>
void add(const SumCall& call, const WrappedBias<T>& bias, std::int64_t first) {
  const auto is_wide = [](const SumCall::Term& term) { return term.buffer == Buffer::partial || term.buffer == Buffer::arrived_partial; };
  if (call.into_buffer != Buffer::output || std::ranges::any_of(call.terms, is_wide)) {
    add_partials(call, bias, first);
    return;
  }
  std::vector<const T*> streams;
  for (const auto& term : call.terms) streams.push_back(static_cast<const T*>(term.data));
  T* const outs[] = {static_cast<T*>(call.into)};
  ordered_sum<T>(streams, bias, first + call.offset, call.count, outs, Store::cached);  // it is sent next
}

}  // namespace

std::unique_ptr<Schedule> message_schedule(std::int64_t L, std::int64_t element_bytes, const NodeMap& nodes, bool ordered) {
  const std::int64_t bytes = L * element_bytes;
  const AllReduce algorithm = by_nodes(bytes, nodes, ordered) ? AllReduce::hierarchical : bytes < short_bytes ? short_sum(bytes, L * static_cast<std::int64_t>(sizeof(float)), nodes, ordered) : AllReduce::two_shot;
  return all_reduce_schedule(algorithm, L, nodes, element_bytes, sizeof(float));
}

template <class T>
void sum_by_messages(Communicator& communicator, const T* partial, std::int64_t L, const WrappedBias<T>& bias, T* out, bool ordered) {
  const std::int64_t size = sizeof(T), per_part = part_bytes / size * communicator.size();
  if (L <= per_part || by_nodes(L * size, communicator.nodes(), ordered)) {
    const auto schedule = message_schedule(L, size, communicator.nodes(), ordered);
    execute(*schedule, communicator, {const_cast<T*>(partial), out, nullptr, nullptr, nullptr}, [&](const SumCall& call) { add(call, bias, 0); });
    return;
  }
  std::map<std::int64_t, std::unique_ptr<Schedule>> schedules;  // by length: that of all parts but the last, and the last one's
  std::vector<Stage> stages;
  for (std::int64_t first = 0; first < L; first += per_part) {
    auto& schedule = schedules[std::min(per_part, L - first)];
    if (!schedule) schedule = all_reduce_schedule(AllReduce::two_shot, std::min(per_part, L - first), communicator.nodes(), size, sizeof(float));
    stages.push_back({schedule.get(), {const_cast<T*>(partial) + first, out + first, nullptr, nullptr, nullptr}, {}, {}});
  }
  execute_pipelined(stages, parts_under_way, communicator, [&](std::size_t stage, const SumCall& call) { add(call, bias, static_cast<std::int64_t>(stage) * per_part); });
}

template void sum_by_messages<float>(Communicator&, const float*, std::int64_t, const WrappedBias<float>&, float*, bool);
template void sum_by_messages<f16>(Communicator&, const f16*, std::int64_t, const WrappedBias<f16>&, f16*, bool);
template void sum_by_messages<bf16>(Communicator&, const bf16*, std::int64_t, const WrappedBias<bf16>&, bf16*, bool);

}  // namespace faibench::tp_allreduce_bias_fuse
