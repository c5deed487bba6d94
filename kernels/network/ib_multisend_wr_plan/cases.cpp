#include "kernels/network/ib_multisend_wr_plan/cases.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/network/ib_multisend_wr_plan/ib_multisend_wr_plan.h"

namespace faibench::ib_multisend_wr_plan {
namespace {

/// What a generator decides; keys, addresses and tags are drawn.
struct Plot {
  std::int64_t Q = 4, L = 2, R = 2, F = 8, M = 3;
  std::uint64_t head = 0;
  std::int32_t split = 1, data_qps = 2, adaptive = 0, ooo = 0, by_id = 0;
  std::int64_t threshold = 8192;
  bool equal_tags = false;
  std::vector<std::vector<std::int64_t>> groups;  ///< send sizes by entry
  std::uint64_t buffer = std::uint64_t{1} << 31;   ///< remote buffer size
  bool shuffled = false;
  double stray = 0;                                ///< more sends whose tag does not match, as a share
};

template <class T>
void scalar(TensorMap& in, const char* name, T value) { in.add(name, Tensor::scalar<T>(value)); }

TensorMap build(Random& random, const Plot& shape) {
  TensorMap in;
  scalar<std::uint64_t>(in, "fifo_head", shape.head);
  for (const char* name : {"qp_dev", "qp_rem_dev"}) {
    const bool local = std::string_view(name) == "qp_dev";
    auto devices = in.add(name, Tensor(Dtype::i32, {shape.Q})).flat<std::int32_t>();
    for (std::size_t q = 0; q < devices.size(); ++q) devices[q] = static_cast<std::int32_t>(static_cast<std::int64_t>(local ? q : q / 2 + 1) % (local ? shape.L : shape.R));
  }
  scalar<std::int32_t>(in, "split_on_qps", shape.split);
  scalar<std::int32_t>(in, "n_data_qps", shape.data_qps);
  scalar<std::int32_t>(in, "adaptive_routing", shape.adaptive);
  scalar<std::int32_t>(in, "ooo_rq", shape.ooo);
  scalar<std::int32_t>(in, "match_by_id", shape.by_id);
  scalar<std::int64_t>(in, "ar_threshold", shape.threshold);
  const auto F = static_cast<std::uint64_t>(shape.F);
  const auto idx = in.add("cts_idx", Tensor(Dtype::u64, {shape.F, entries})).flat<std::uint64_t>();
  const auto addr = in.add("cts_addr", Tensor(Dtype::u64, {shape.F, entries})).flat<std::uint64_t>();
  const auto size = in.add("cts_size", Tensor(Dtype::u64, {shape.F, entries})).flat<std::uint64_t>();
  const auto tag = in.add("cts_tag", Tensor(Dtype::u32, {shape.F, entries})).flat<std::uint32_t>();
  const auto rkeys = in.add("cts_rkeys", Tensor(Dtype::u32, {shape.F, entries, shape.R})).flat<std::uint32_t>();
  const auto nreqs = in.add("cts_nreqs", Tensor(Dtype::u32, {shape.F})).flat<std::uint32_t>();
  random.fill_bits(tag);
  random.fill_bits(rkeys);
  for (std::uint32_t& key : rkeys) key |= 1;
  struct Send { std::int64_t size; std::uint32_t tag; };
  std::vector<Send> sends, group;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const std::uint64_t id = shape.head + g;
    const std::size_t s = static_cast<std::size_t>(id % F);
    const auto& sizes = shape.groups[g];
    nreqs[s] = static_cast<std::uint32_t>(sizes.size());
    group.clear();
    for (std::size_t r = 0; r < sizes.size(); ++r) {
      const std::size_t at = s * 8 + r;
      idx[at] = id + 1;
      addr[at] = (std::uint64_t{0x7000} << 32) + (random.u64() >> 24);
      size[at] = shape.buffer;
      tag[at] = shape.equal_tags ? 7 : (tag[at] & 0x7ffffff8u) | static_cast<std::uint32_t>(r);
      group.push_back({sizes[r], tag[at]});
    }
    if (shape.shuffled) random.shuffle(group);
    for (const Send& send : group) {
      sends.push_back(send);
      if (shape.stray > 0 && random.chance(shape.stray)) sends.push_back({random.below(5000), random.u32() | 0x80000000u});
    }
  }
  const auto N = static_cast<std::int64_t>(sends.size());
  const auto send_addr = in.add("send_addr", Tensor(Dtype::u64, {N})).flat<std::uint64_t>();
  const auto send_size = in.add("send_size", Tensor(Dtype::i64, {N})).flat<std::int64_t>();
  const auto send_tag = in.add("send_tag", Tensor(Dtype::u32, {N})).flat<std::uint32_t>();
  const auto send_mr = in.add("send_mr", Tensor(Dtype::i32, {N})).flat<std::int32_t>();
  random.fill_below(send_mr, static_cast<std::int32_t>(std::max<std::int64_t>(1, shape.M)));
  for (std::size_t k = 0; k < sends.size(); ++k) {
    send_addr[k] = (std::uint64_t{1} << 20) + (random.u64() >> 17);
    send_size[k] = sends[k].size;
    send_tag[k] = sends[k].tag;
  }
  random.fill_bits(in.add("lkeys", Tensor(Dtype::u32, {shape.M, shape.L})).flat<std::uint32_t>());
  scalar<std::uint64_t>(in, "report_addr", 0x7f0000001000u);
  scalar<std::uint64_t>(in, "remote_report_addr", 0x7e0000002000u);
  random.fill_bits(in.add("report_lkeys", Tensor(Dtype::u32, {shape.L})).flat<std::uint32_t>());
  random.fill_bits(in.add("report_rkeys", Tensor(Dtype::u32, {shape.L})).flat<std::uint32_t>());
  return in;
}

using Damage = void (*)(TensorMap&);

Case fixed(std::string name, std::string note, Plot shape, Damage damage = nullptr) {
  return {std::move(name), std::move(note), [shape, damage](Random& random) {
            TensorMap in = build(random, shape);
            if (damage) damage(in);
            return in;
          }};
}

Plot with(std::vector<std::vector<std::int64_t>> groups, void (*change)(Plot&) = nullptr) {
  Plot shape;
  shape.groups = std::move(groups);
  if (change) change(shape);
  return shape;
}

template <class T>
std::span<T> values(TensorMap& in, const char* name) { return in.at(name).flat<T>(); }

std::vector<Case> valid_cases() {
  constexpr std::int64_t largest = 0x7fffffff;
  const std::vector<std::vector<std::int64_t>> three = {{5}, {100000, 0, 77}, {9000}};
  return {
      fixed("no_sends", "N = 0, slots ready", with({{1}, {2, 3}}), [](TensorMap& in) {
        for (const char* name : {"send_addr", "send_size", "send_tag", "send_mr"}) in.at(name) = Tensor(in.at(name).dtype(), {0});
      }),
      fixed("nothing_written", "no slot ready: sends without credit", with({{1}, {2}}), [](TensorMap& in) { std::ranges::fill(values<std::uint64_t>(in, "cts_idx"), 0); }),
      fixed("sizes_around_alignment", "0, 1, 127, 128, 129, 128 nq, one over, the largest", with({{0}, {1}, {127}, {128}, {129}, {511}, {512}, {513}}, [](Plot& s) { s.F = 16; })),
      fixed("largest_size", "2^31-1, alone and with others", with({{largest}, {largest, 3, largest}})),
      fixed("largest_size_on_one", "nq = 1", with({{largest}, {largest, 1}}, [](Plot& s) { s.split = 0; s.data_qps = 1; })),
      fixed("cursor_wraps", "ids pass 2^64, F = 8", with({{1}, {2, 3}, {4}, {5}}, [](Plot& s) { s.head = ~std::uint64_t{0} - 1; s.by_id = 1; })),
      fixed("cursor_wraps_odd_depth", "F does not divide 2^64, Q = 5, 3 of them", with({{1}, {2}, {3}}, [](Plot& s) { s.F = 6; s.head = ~std::uint64_t{0}; s.Q = 5; s.split = 0; s.data_qps = 3; })),
      fixed("product_wraps", "id*nq passes 2^64 before the remainder", with({{1000}, {2000}}, [](Plot& s) { s.head = std::uint64_t{1} << 63; s.Q = 7; s.split = 0; s.data_qps = 3; })),
      fixed("slot_wraps", "F-1, then 0", with(three, [](Plot& s) { s.head = 7; })),
      fixed("one_slot", "F = 1", with({{300}}, [](Plot& s) { s.F = 1; s.head = 12345; })),
      fixed("slot_255", "its byte in wr_id", with({{1, 2}, {3, 4}, {5, 6}, {7, 8}}, [](Plot& s) { s.F = 300; s.head = 255; })),
      fixed("many_queue_pairs", "Q = 128, 8 devices", with({{1 << 20}, {1, 2, 3, 4, 5, 6, 7, 8}}, [](Plot& s) { s.Q = 128; s.L = s.R = 8; })),
      fixed("eight_entries", "arrival in another order", with({{8, 700, 60000, 0, 128, 129, 1 << 20, 1}}, [](Plot& s) { s.shuffled = true; })),
      fixed("duplicate_tags", "the first free entry", with({{1, 2, 3, 4, 5}, {6, 7}}, [](Plot& s) { s.equal_tags = true; })),
      fixed("partial_slot", "entry 0 written, entry 1 not", with({{1}, {2, 3}, {4}}), [](TensorMap& in) { values<std::uint64_t>(in, "cts_idx")[9] = 0; }),
      fixed("stale_slot", "of the ring before", with({{1}, {2}, {4}}), [](TensorMap& in) { values<std::uint64_t>(in, "cts_idx")[8] -= 8; }),
      fixed("small_remote_buffers", "sends larger than they", with({{5000}, {4000, 900, 1001}}, [](Plot& s) { s.buffer = 1000; })),
      fixed("clamped_below_threshold", "adaptive routing looks at the clamped size", with({{50000}}, [](Plot& s) { s.buffer = 8192; s.adaptive = 1; })),
      fixed("no_remote_room", "remote buffers of 0 bytes", with({{50}, {60, 70}}, [](Plot& s) { s.buffer = 0; })),
      fixed("at_the_threshold", "equal: no further write; one more: one", with({{8192}, {8193}, {8192, 1}}, [](Plot& s) { s.adaptive = 1; })),
      fixed("threshold_0", "0 bytes, 1 byte", with({{0}, {1}}, [](Plot& s) { s.adaptive = 1; s.threshold = 0; })),
      fixed("out_of_order_queues", "suppress it for one entry, never for several", with({{9000}, {9000, 9000}}, [](Plot& s) { s.adaptive = s.ooo = 1; })),
      fixed("routing_off", "large and alone", with({{1 << 22}})),
      fixed("by_id", "2^32-1 gives 0", with({{10}, {20, 30}, {40}}, [](Plot& s) { s.by_id = 1; s.head = 0xfffffffe; })),
      fixed("last_incomplete", "the second send of the last group is missing", with({{10}, {20, 30}}), [](TensorMap& in) {
        for (const char* name : {"send_addr", "send_size", "send_tag", "send_mr"}) {
          const Tensor& old = in.at(name);
          Tensor shorter(old.dtype(), {2});
          std::copy_n(old.data(), shorter.bytes(), shorter.data());
          in.at(name) = std::move(shorter);
        }
      }),
      fixed("more_sends_than_slots", "no credit at the end", with({{1}, {2}, {3}}), [](TensorMap& in) { values<std::uint64_t>(in, "cts_idx")[16] = 0; }),
      fixed("stray_tags", "between those that match", with(three, [](Plot& s) { s.stray = 0.9; s.shuffled = true; })),
      fixed("ends_at_2_64", "address + size = 2^64", with({{1000}}), [](TensorMap& in) {
        values<std::uint64_t>(in, "send_addr")[0] = 0 - std::uint64_t{1000};
        values<std::uint64_t>(in, "cts_addr")[0] = 0 - (std::uint64_t{1} << 31);
      }),
      fixed("null_without_bytes", "address 0 with size 0", with({{0}}), [](TensorMap& in) { values<std::uint64_t>(in, "send_addr")[0] = 0; }),
      fixed("report_wraps", "its address near 2^64", with({{1}, {2, 3}}), [](TensorMap& in) { in.at("report_addr") = Tensor::scalar<std::uint64_t>(~std::uint64_t{0}); }),
      fixed("bad_slot_beyond_the_window", "entries that nobody reads", with({{1}, {2}}), [](TensorMap& in) { values<std::uint32_t>(in, "cts_nreqs")[5] = 99; }),
  };
}

std::vector<Case> invalid_cases() {
  const std::vector<std::vector<std::int64_t>> groups = {{5}, {100000, 77}, {9000}};
  const auto broken = [&](std::string name, Damage damage) { return fixed(std::move(name), "rejected", with(groups), damage); };
  const auto shaped = [&](std::string name, void (*change)(Plot&)) { return fixed(std::move(name), "rejected", with(groups, change)); };
  return {
      broken("missing_tensor", [](TensorMap& in) { in.erase("send_tag"); }),
      broken("unknown_tensor", [](TensorMap& in) { in.add("qps", Tensor(Dtype::i32, {1})); }),
      broken("wrong_dtype", [](TensorMap& in) { in.at("send_size") = Tensor(Dtype::i32, {4}); }),
      broken("wrong_rank", [](TensorMap& in) { in.at("cts_nreqs") = Tensor(Dtype::u32, {8, 1}); }),
      broken("dim_mismatch", [](TensorMap& in) { in.at("qp_rem_dev") = Tensor(Dtype::i32, {3}); }),
      broken("no_queue_pairs", [](TensorMap& in) { in.at("qp_dev") = Tensor(Dtype::i32, {0}); in.at("qp_rem_dev") = Tensor(Dtype::i32, {0}); }),
      shaped("too_many_queue_pairs", [](Plot& s) { s.Q = 129; }),
      broken("no_local_devices", [](TensorMap& in) { in.at("lkeys") = Tensor(Dtype::u32, {3, 0}); in.at("report_lkeys") = Tensor(Dtype::u32, {0}); in.at("report_rkeys") = Tensor(Dtype::u32, {0}); }),
      shaped("too_many_local_devices", [](Plot& s) { s.L = 9; }),
      broken("no_remote_devices", [](TensorMap& in) { in.at("cts_rkeys") = Tensor(Dtype::u32, {8, 8, 0}); }),
      shaped("too_many_remote_devices", [](Plot& s) { s.R = 9; }),
      broken("queue_pair_of_no_device", [](TensorMap& in) { values<std::int32_t>(in, "qp_dev")[3] = 2; }),
      broken("queue_pair_of_negative_remote", [](TensorMap& in) { values<std::int32_t>(in, "qp_rem_dev")[1] = -1; }),
      shaped("split_2", [](Plot& s) { s.split = 2; }),
      shaped("adaptive_2", [](Plot& s) { s.adaptive = 2; }),
      shaped("ooo_minus_1", [](Plot& s) { s.ooo = -1; }),
      shaped("by_id_3", [](Plot& s) { s.by_id = 3; }),
      shaped("data_qps_0", [](Plot& s) { s.data_qps = 0; }),
      shaped("data_qps_5", [](Plot& s) { s.data_qps = 5; }),
      shaped("threshold_negative", [](Plot& s) { s.threshold = -1; }),
      broken("no_slots", [](TensorMap& in) {
        for (const char* name : {"cts_idx", "cts_addr", "cts_size"}) in.at(name) = Tensor(Dtype::u64, {0, 8});
        in.at("cts_tag") = Tensor(Dtype::u32, {0, 8});
        in.at("cts_rkeys") = Tensor(Dtype::u32, {0, 8, 2});
        in.at("cts_nreqs") = Tensor(Dtype::u32, {0});
      }),
      broken("seven_entries", [](TensorMap& in) {
        for (const char* name : {"cts_idx", "cts_addr", "cts_size"}) in.at(name) = Tensor(Dtype::u64, {8, 7});
        in.at("cts_tag") = Tensor(Dtype::u32, {8, 7});
        in.at("cts_rkeys") = Tensor(Dtype::u32, {8, 7, 2});
      }),
      broken("no_report", [](TensorMap& in) { in.at("report_addr") = Tensor::scalar<std::uint64_t>(0); }),
      broken("no_remote_report", [](TensorMap& in) { in.at("remote_report_addr") = Tensor::scalar<std::uint64_t>(0); }),
      broken("region_beyond", [](TensorMap& in) { values<std::int32_t>(in, "send_mr")[2] = 3; }),
      broken("region_before_size", [](TensorMap& in) { values<std::int32_t>(in, "send_mr")[3] = -1; values<std::int64_t>(in, "send_size")[0] = -4; }),
      broken("size_negative", [](TensorMap& in) { values<std::int64_t>(in, "send_size")[1] = -1; }),
      broken("size_2_31", [](TensorMap& in) { values<std::int64_t>(in, "send_size")[1] = std::int64_t{1} << 31; }),
      broken("address_null", [](TensorMap& in) { values<std::uint64_t>(in, "send_addr")[3] = 0; }),
      broken("address_wraps", [](TensorMap& in) { values<std::uint64_t>(in, "send_addr")[1] = 0 - std::uint64_t{99999}; values<std::int64_t>(in, "send_size")[1] = 100000; }),
      broken("nreqs_0", [](TensorMap& in) { values<std::uint32_t>(in, "cts_nreqs")[1] = 0; }),
      broken("nreqs_9_beyond_the_sends", [](TensorMap& in) { values<std::uint64_t>(in, "cts_idx")[24] = 4; values<std::uint32_t>(in, "cts_nreqs")[3] = 9; }),
      broken("nreqs_before_address", [](TensorMap& in) { values<std::uint64_t>(in, "cts_addr")[0] = 0; values<std::uint32_t>(in, "cts_nreqs")[2] = 10; }),
      broken("cts_address_null", [](TensorMap& in) { values<std::uint64_t>(in, "cts_addr")[9] = 0; }),
      broken("cts_rkey_0", [](TensorMap& in) { values<std::uint32_t>(in, "cts_rkeys")[18] = 0; }),
      broken("cts_address_wraps", [](TensorMap& in) { values<std::uint64_t>(in, "cts_addr")[16] = 0 - std::uint64_t{5}; }),
  };
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all = valid_cases();
  for (Case& c : invalid_cases()) all.push_back(std::move(c));
  return all;
}

TensorMap random_input(Random& random) {
  Plot shape;
  shape.Q = random.between(1, 20);
  shape.L = random.between(1, 8);
  shape.R = random.between(1, 8);
  shape.F = random.between(1, 40);
  shape.head = random.chance(0.5) ? random.u64() >> random.below(64) : static_cast<std::uint64_t>(random.below(50));
  shape.split = random.below(2);
  shape.data_qps = static_cast<std::int32_t>(random.between(1, shape.Q));
  shape.adaptive = random.below(2);
  shape.ooo = random.chance(0.2);
  shape.by_id = random.below(2);
  shape.threshold = random.below(20000);
  shape.equal_tags = random.chance(0.2);
  shape.shuffled = true;
  shape.stray = random.chance(0.5) ? 0.2 : 0;
  shape.buffer = random.chance(0.5) ? static_cast<std::uint64_t>(random.below(100000)) : std::uint64_t{1} << 31;
  for (std::int64_t g = random.between(0, shape.F); g > 0; --g) {
    auto& group = shape.groups.emplace_back();
    for (std::int64_t n = random.chance(0.5) ? 1 : random.between(1, 8); n > 0; --n) group.push_back(random.chance(0.1) ? 0 : random.below(std::int64_t{1} << random.between(1, 31)));
  }
  TensorMap in = build(random, shape);
  if (random.chance(0.3)) values<std::uint64_t>(in, "cts_idx")[static_cast<std::size_t>(random.below(shape.F * entries))] -= static_cast<std::uint64_t>(shape.F);
  return in;
}

TensorMap long_batch(Random& random, std::int64_t F, std::int64_t Q, std::uint64_t head) {
  Plot shape;
  shape.Q = Q;
  shape.F = F;
  shape.M = 16;
  shape.head = head;
  shape.adaptive = 1;
  shape.shuffled = true;
  shape.stray = 0.02;
  const double log_largest = stable_log(4194304.0);
  for (std::int64_t g = 0; g < F; ++g) {
    const double kind = random.uniform();
    auto& group = shape.groups.emplace_back(static_cast<std::size_t>(kind < 0.6 ? 1 : kind < 0.85 ? random.between(2, 4) : 8));
    for (std::int64_t& size : group) size = random.chance(0.05) ? 0 : static_cast<std::int64_t>(std::floor(stable_exp(log_largest * random.uniform())));
  }
  return build(random, shape);
}

TensorMap small_batch(Random& random) {
  Plot shape;
  shape.groups = {{random.below(100000)}, {random.below(5000), 1 << 16}, {1, random.below(400), 20000}};
  shape.shuffled = true;
  return build(random, shape);
}

}  // namespace faibench::ib_multisend_wr_plan
