// runtime_arena_memplan: contract, reference, gate, metric, workloads, floor. The fixed cases are in cases.cpp.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "kernels/memory/runtime_arena_memplan/cases.h"
#include "kernels/memory/runtime_arena_memplan/runtime_arena_memplan.h"

namespace faibench {
namespace runtime_arena_memplan {
namespace {

struct Buffer {
  std::int64_t index, size, alloc, free;
  [[nodiscard]] bool conflicts_with(const Buffer& other) const { return alloc < other.free && other.alloc < free; }
};

std::int64_t round_up(std::int64_t x, std::int64_t align) { return (x + align - 1) / align * align; }

}  // namespace

void reference::plan(std::int64_t align, View<const std::int64_t, 1> size, View<const std::int64_t, 1> alloc, View<const std::int64_t, 1> free, View<std::int64_t, 1> offset) {
  std::vector<Buffer> order;
  for (std::int64_t i = 0; i < size.extent(0); ++i) {
    offset[i] = 0;
    if (size[i] > 0) order.push_back({i, size[i], alloc[i], free[i]});
  }
  std::stable_sort(order.begin(), order.end(), [](const Buffer& a, const Buffer& b) { return a.size != b.size ? a.size > b.size : a.alloc < b.alloc; });
  std::vector<Buffer> placed;  // by offset; equal offsets in the order of placement
  for (const Buffer& buffer : order) {
    std::int64_t end = 0, chosen = -1, chosen_gap = 0;
    for (const Buffer& other : placed) {
      if (!other.conflicts_with(buffer)) continue;
      const std::int64_t start = round_up(end, align), gap = offset[other.index] - start;
      if (gap >= buffer.size && (chosen < 0 || gap < chosen_gap)) {
        chosen = start;
        chosen_gap = gap;
      }
      end = std::max(end, offset[other.index] + other.size);
    }
    const std::int64_t at = chosen >= 0 ? chosen : round_up(end, align);
    offset[buffer.index] = at;
    std::size_t k = placed.size();
    while (k > 0 && offset[placed[k - 1].index] > at) --k;
    placed.insert(placed.begin() + static_cast<std::ptrdiff_t>(k), buffer);
  }
}

namespace {

constexpr std::int64_t limit = std::int64_t{1} << 40;  // of sizes and times
constexpr std::int64_t largest_align = std::int64_t{1} << 21;

// ---- rejections: a pass without branches finds whether any value is wrong, a second one which

Rejected bad_align(const TensorRefMap& inputs) {
  const std::int64_t align = inputs.at("align").scalar<std::int64_t>();
  if (align >= 1 && align <= largest_align && (align & (align - 1)) == 0) return std::nullopt;
  return reject("bad_align", "align", -1, std::to_string(align), "not a power of two in 1 .. 2^21");
}

Rejected bad_size(const TensorRefMap& inputs) {
  const auto size = inputs.at("size").flat<const std::int64_t>();
  std::uint64_t wrong = 0;  // its top bit
  for (const std::int64_t s : size) wrong |= static_cast<std::uint64_t>(s) | (static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(s));
  if (!(wrong >> 63)) return std::nullopt;
  for (std::size_t i = 0;; ++i)
    if (size[i] < 0 || size[i] > limit) return reject("bad_size", "size", static_cast<std::int64_t>(i), std::to_string(size[i]), "not in 0 .. 2^40");
}

Rejected bad_lifetime(const TensorRefMap& inputs) {
  const auto alloc = inputs.at("alloc").flat<const std::int64_t>(), free = inputs.at("free").flat<const std::int64_t>();
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < alloc.size(); ++i) {
    const std::uint64_t a = static_cast<std::uint64_t>(alloc[i]), f = static_cast<std::uint64_t>(free[i]);
    wrong |= a | f | (f - a - 1) | (static_cast<std::uint64_t>(limit) - f);
  }
  if (!(wrong >> 63)) return std::nullopt;
  for (std::size_t i = 0;; ++i) {
    const std::int64_t a = alloc[i], f = free[i], at = static_cast<std::int64_t>(i);
    if (a < 0) return reject("bad_lifetime", "alloc", at, std::to_string(a), "negative");
    if (f > limit) return reject("bad_lifetime", "free", at, std::to_string(f), "beyond 2^40");
    if (f <= a) return reject("bad_lifetime", "free", at, std::to_string(f), "not after alloc[" + std::to_string(i) + "] = " + std::to_string(a));
  }
}

// ---- gate: the plan is legal

struct Call {
  std::int64_t align;
  std::span<const std::int64_t> size, alloc, free, offset;
};

Call call_of(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  return {inputs.at("align").scalar<std::int64_t>(), inputs.at("size").flat<const std::int64_t>(), inputs.at("alloc").flat<const std::int64_t>(),
          inputs.at("free").flat<const std::int64_t>(), outputs.at("offset").flat<const std::int64_t>()};
}

// Buffers of more than 0 bytes by birth, and by death: what a sweep over time needs. At one time deaths come before births.
struct Events {
  explicit Events(const Call& call) {
    for (std::size_t i = 0; i < call.size.size(); ++i)
      if (call.size[i] > 0) births.push_back(i);
    deaths = births;
    std::sort(births.begin(), births.end(), [&](std::size_t a, std::size_t b) { return call.alloc[a] < call.alloc[b]; });
    std::sort(deaths.begin(), deaths.end(), [&](std::size_t a, std::size_t b) { return call.free[a] < call.free[b]; });
  }
  /// born(i) and dead(i) for every buffer, in the order of time; stops when born returns true.
  template <class Born, class Dead>
  void sweep(const Call& call, Born born, Dead dead) const {
    std::size_t next_death = 0;
    for (const std::size_t i : births) {
      while (call.free[deaths[next_death]] <= call.alloc[i]) dead(deaths[next_death++]);
      if (born(i)) return;
    }
  }
  std::vector<std::size_t> births, deaths;
};

Mismatch broken(const Call& call, std::size_t i, const std::string& what) { return {"offset", {static_cast<std::int64_t>(i)}, std::to_string(call.offset[i]), "", 0, what}; }

// (a), (c), (d): one buffer at a time.
GateResult check_each(const Call& call) {
  std::int64_t unshared = 0;
  for (const std::int64_t size : call.size) unshared += round_up(size, call.align);
  for (std::size_t i = 0; i < call.size.size(); ++i) {
    const std::int64_t offset = call.offset[i];
    if (offset < 0) return broken(call, i, "offset[" + std::to_string(i) + "] = " + std::to_string(offset) + " is negative");
    if (offset % call.align != 0) return broken(call, i, "offset[" + std::to_string(i) + "] = " + std::to_string(offset) + " is not a multiple of " + std::to_string(call.align));
    if (call.size[i] == 0 && offset != 0) return broken(call, i, "offset[" + std::to_string(i) + "] = " + std::to_string(offset) + ", but the buffer has 0 bytes");
    if (call.size[i] > 0 && offset > unshared - round_up(call.size[i], call.align))
      return broken(call, i, "offset[" + std::to_string(i) + "] = " + std::to_string(offset) + ": the buffer ends beyond " + std::to_string(unshared) + ", the plan without sharing");
  }
  return std::nullopt;
}

// (b): a sweep keeps the living buffers by offset. They are disjoint, so a newborn can only meet its two neighbours.
GateResult check_conflicts(const Call& call) {
  GateResult bad;
  std::map<std::int64_t, std::size_t> living;
  const auto meet = [&](std::size_t low, std::size_t high) {
    if (call.offset[low] + call.size[low] <= call.offset[high]) return false;
    bad = broken(call, high, "buffers " + std::to_string(low) + " and " + std::to_string(high) + " are alive together and overlap: bytes " + std::to_string(call.offset[low]) + " .. " +
                                 std::to_string(call.offset[low] + call.size[low] - 1) + " and " + std::to_string(call.offset[high]) + " .. " +
                                 std::to_string(call.offset[high] + call.size[high] - 1));
    return true;
  };
  Events(call).sweep(
      call,
      [&](std::size_t i) {
        const auto above = living.lower_bound(call.offset[i]);
        if (above != living.end() && meet(i, above->second)) return true;
        if (above != living.begin() && meet(std::prev(above)->second, i)) return true;
        living.emplace_hint(above, call.offset[i], i);
        return false;
      },
      [&](std::size_t i) { living.erase(call.offset[i]); });
  return bad;
}

GateResult legal(const GateCall& gate_call) {
  const TensorRef& size = gate_call.inputs.at("size");
  const TensorRef* offset = gate_call.outputs.find("offset");
  if (!offset) return Mismatch{"offset", {}, "", "", 0, "output is missing"};
  if (auto bad = same_form("offset", *offset, size)) return bad;
  const Call call = call_of(gate_call.inputs, gate_call.outputs);
  if (auto bad = check_each(call)) return bad;
  return check_conflicts(call);
}

// ---- metric: how much larger than the lower bound the arena is

double compactness(const TensorRefMap& inputs, const TensorRefMap& outputs) {
  const Call call = call_of(inputs, outputs);
  std::int64_t alive = 0, lower_bound = 0, peak = 0;
  Events(call).sweep(
      call,
      [&](std::size_t i) {
        alive += round_up(call.size[i], call.align);
        lower_bound = std::max(lower_bound, alive);
        peak = std::max(peak, call.offset[i] + call.size[i]);
        return false;
      },
      [&](std::size_t i) { alive -= round_up(call.size[i], call.align); });
  return lower_bound == 0 ? 1.0 : static_cast<double>(round_up(peak, call.align)) / static_cast<double>(lower_bound);
}

// ---- workloads

TensorMap graph(Random& random, std::int64_t N) {
  TensorMap inputs;
  inputs.add("align", Tensor::scalar<std::int64_t>(64));
  const auto size = inputs.add("size", Tensor(Dtype::i64, {N})).flat<std::int64_t>();
  const auto alloc = inputs.add("alloc", Tensor(Dtype::i64, {N})).flat<std::int64_t>();
  const auto free = inputs.add("free", Tensor(Dtype::i64, {N})).flat<std::int64_t>();
  const std::int64_t T = N / 2;
  const double log_256 = stable_log(256.0), log_65536 = stable_log(65536.0);
  for (std::size_t i = 0; i < size.size(); ++i) {
    size[i] = static_cast<std::int64_t>(std::floor(stable_exp(log_256 + random.uniform() * log_65536)));
    const double kind = random.uniform();
    if (kind < 0.0015) {
      alloc[i] = random.below(T / 2);
      free[i] = T - alloc[i];
    } else {
      alloc[i] = random.below(T);
      free[i] = alloc[i] + 1 + static_cast<std::int64_t>(kind < 0.07 ? std::floor(60 * random.uniform()) : std::floor(4 * random.exponential()));
    }
  }
  return inputs;
}

Task make() {
  Task task;
  task.name = "runtime_arena_memplan";
  task.group = "memory";
  task.summary = "Offsets in one arena for buffers of known size and lifetime: compact, and planned fast";
  task.semantics =
      "Two buffers of more than 0 bytes conflict if their half-open lifetimes [alloc, free) meet. A plan is legal if offsets are multiples of align >= 0, conflicting buffers have disjoint bytes, "
      "0-byte buffers lie at 0, and no buffer ends beyond the sum of all sizes rounded up to align. Lower bound LB: the most bytes (rounded up) alive at one time. q = peak / LB. J = seconds * q^16.";
  task.contract.input("align", {Dtype::i64}, {}, "every offset is a multiple of it", "a power of two, 1 .. 2^21");
  task.contract.input("size", {Dtype::i64}, {"N"}, "bytes of the buffer", "0 .. 2^40; N may be 0");
  task.contract.input("alloc", {Dtype::i64}, {"N"}, "first time step of its life", "0 <= alloc < free");
  task.contract.input("free", {Dtype::i64}, {"N"}, "first time step after its life", "<= 2^40");
  task.contract.output("offset", {Dtype::i64}, {"N"}, "first byte of the buffer in the arena");
  task.contract.rule("bad_align", "align is not a power of two in 1 .. 2^21", CheckedBy::runner, bad_align);
  task.contract.rule("bad_size", "a size < 0 or > 2^40", CheckedBy::runner, bad_size);
  task.contract.rule("bad_lifetime", "not 0 <= alloc < free <= 2^40 (an empty lifetime is rejected)", CheckedBy::runner, bad_lifetime);
  const std::vector<std::string> names = {"align", "size", "alloc", "free", "offset"};
  task.variants = {
      {"reference", Kernel({bind(reference::plan, names)}), "greedy by size, best-fit gaps"},
      {"baseline", Kernel({bind(baseline::plan, names)}), "greedy by size, best-fit gaps, every placed buffer tested"},
      {"cpu", Kernel({bind(cpu::plan, names)}), "greedy by size on a skyline over compressed time; gaps are searched only above the lower bound"},
  };
  task.workloads = {
      {"smoke", "N = 500; 93 % temporaries, 6.85 % medium, 0.15 % activations; sizes log-uniform 256 B .. 16 MiB; align 64", {[](Random& random) { return graph(random, 500); }}, 3e-4},
      {"standard", "N = 20000, the same distribution: 20 to 40 buffers alive at a time", {[](Random& random) { return graph(random, 20000); }}, 0.7},
  };
  task.cases = cases();
  task.random_case = random_case;
  task.gate = {"property: the plan is legal (offsets aligned, conflicting buffers disjoint, 0-byte buffers at 0, no end beyond the plan without sharing)", legal, false, false, {}};
  task.metric = {"J = seconds * q^16, q = peak / lower bound: speedup = (T_base / T_sol) * (q_base / q_sol)^16", true, compactness, 16};
  task.floor = [](const TensorRefMap& inputs) { return Floor{8 + 32.0 * static_cast<double>(inputs.at("size").size()), 0}; };
  task.floor_text = "24*N bytes read + 8*N written, no operations";
  return task;
}

}  // namespace
}  // namespace runtime_arena_memplan

namespace tasks {
const Task& runtime_arena_memplan() {
  static const Task task = faibench::runtime_arena_memplan::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
