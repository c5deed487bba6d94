#include "kernels/network/rdma_blockpool_window/cases.h"

#include <algorithm>

namespace faibench::rdma_blockpool_window {
namespace {

constexpr std::uint64_t MiB = 1 << 20, base = std::uint64_t{127} << 40;

/// One region of each tier and a user region that touches the first.
Input ordinary() {
  Input in;
  in.regions = {{base, 32 * MiB, 0, 101}, {base + 64 * MiB, 32 * MiB, 1, 102}, {base + 128 * MiB, 64 * MiB, 2, 103}, {base + 32 * MiB, 12345, 3, 901}};
  return in;
}

Case made(std::string name, std::string note, std::function<void(Input&)> change) {
  return {std::move(name), std::move(note), [=](Random&) {
            Input in = ordinary();
            change(in);
            return in.tensors();
          }};
}

std::uint64_t log_uniform(Random& random, double low, double high) {
  const double value = stable_exp(random.uniform(stable_log(low), stable_log(high + 1)));
  return static_cast<std::uint64_t>(std::clamp(value, low, high));
}

}  // namespace

TensorMap Input::tensors() const {
  std::vector<std::uint64_t> start, bytes;
  std::vector<std::int32_t> type;
  std::vector<std::uint32_t> id;
  for (const Region& r : regions) {
    start.push_back(r.start);
    bytes.push_back(r.size);
    type.push_back(r.type);
    id.push_back(r.id);
  }
  TensorMap inputs;
  const auto add = [&](const char* name, const auto& values) { inputs.add(name, Tensor::of({static_cast<std::int64_t>(values.size())}, values)); };
  add("config", config);
  add("tiers", tiers);
  add("region_start", start);
  add("region_size", bytes);
  add("region_type", type);
  add("region_id", id);
  add("inflight", inflight);
  add("addr", addr);
  add("size", size);
  return inputs;
}

std::vector<Case> cases() {
  std::vector<Case> cases;
  for (std::size_t p = 0; p < parameters().size(); ++p) {
    cases.push_back(made(parameters()[p].name + "_low", "and every later one too high", [p](Input& in) {
      for (std::size_t k = p + 1; k < 16; ++k) in.config[k] = parameters()[k].high + 1;
      in.config[p] = parameters()[p].low - 1;
    }));
    cases.push_back(made(parameters()[p].name + "_high", "", [p](Input& in) { in.config[p] = parameters()[p].high + 1; }));
  }
  const std::vector<std::pair<std::string, std::function<void(Input&)>>> faults = {
      {"bad_config_length", [](Input& in) { in.config.pop_back(); }},
      {"bad_tier_count", [](Input& in) { in.tiers.pop_back(); }},
      {"tier_zero", [](Input& in) { in.tiers = {8191, 0, 1}; }},
      {"tier_not_power_of_two", [](Input& in) { in.tiers[1] = 65535; }},
      {"tier_below_page", [](Input& in) { in.tiers[0] = 2048; }},
      {"tier_above_max", [](Input& in) { in.tiers[2] = 4194304; }},
      {"tier_not_increasing", [](Input& in) { in.tiers[1] = 8192; }},
      {"tier_not_standard", [](Input& in) { in.tiers[0] = 4096; }},
      {"no_regions", [](Input& in) { in.regions.clear(); }},
      {"region_type_negative", [](Input& in) { in.regions[1].type = -1; in.regions[0].type = 4; }},
      {"region_type_unknown", [](Input& in) { in.regions[1].type = 4; }},
      {"no_pool_region", [](Input& in) { for (Region& r : in.regions) r.type = 3; }},
      {"too_many_pool_regions", [](Input& in) { in.config[0] = 2; }},
      {"too_many_user_regions", [](Input& in) { for (std::uint32_t i = 0; i < 4096; ++i) in.regions.push_back({1 + i, 1, 3, 1}); }},
      {"region_null_start", [](Input& in) { in.regions[2].start = 0; in.regions[0].size = 0; }},
      {"region_size_zero", [](Input& in) { in.regions[3].size = 0; }},
      {"region_wraps", [](Input& in) { in.regions[3].start = ~std::uint64_t{0}; in.regions[3].size = 2; }},
      {"region_noncanonical", [](Input& in) { in.regions[3].start = (std::uint64_t{1} << 57) - 1; in.regions[3].size = 2; }},
      {"region_start_unaligned", [](Input& in) { in.regions[0].start += 8; }},
      {"region_too_small", [](Input& in) { in.regions[0].size = 1 << 19; }},
      {"region_too_large", [](Input& in) { in.regions[3].size = (std::uint64_t{1} << 40) + 1; }},
      {"region_size_not_blocks", [](Input& in) { in.regions[1].size += 8192; }},
      {"region_size_not_buckets", [](Input& in) { in.regions[1].size += 65536; }},
      {"region_id_zero", [](Input& in) { in.regions[3].id = 0; }},
      {"region_id_reserved", [](Input& in) { in.regions[3].id = 0xFFFFFFFFu; }},
      {"region_duplicate_start", [](Input& in) { in.regions[3].start = in.regions[1].start; }},
      {"region_overlap", [](Input& in) { in.regions[3].start = in.regions[1].start - 1; in.regions[3].size = 2; }},
      {"first_region_not_recv_type", [](Input& in) { in.config[13] = 0; in.config[5] = 1; }},
      {"initial_region_size", [](Input& in) { in.config[13] = 0; }},
      {"increase_region_size", [](Input& in) { in.config[13] = 0; in.config[1] = 32; }},
      {"inflight_over_window", [](Input& in) { in.config[6] = 16; for (std::uint64_t i = 0; i < 14; ++i) in.inflight.push_back(in.regions[0].start + i * 8192); }},
      {"inflight_null", [](Input& in) { in.inflight = {5, 0}; }},
      {"inflight_unregistered", [](Input& in) { in.inflight = {in.regions[3].start, 5}; }},
      {"inflight_in_user_region", [](Input& in) { in.inflight = {in.regions[0].start + 1, in.regions[3].start}; }},
      {"inflight_misaligned", [](Input& in) { in.inflight = {in.regions[1].start + 8192}; }},
      {"inflight_duplicate", [](Input& in) { in.inflight = {in.regions[1].start, in.regions[0].start, in.regions[1].start}; }},
      {"stream_too_long", [](Input& in) { in.addr.assign((1 << 20) + 1, 1); in.size.assign((1 << 20) + 1, 1); }},
      {"query_null_addr", [](Input& in) { in.ask(std::uint64_t{1} << 57, 1); in.ask(0, 1); }},
      {"query_noncanonical", [](Input& in) { in.ask(5, 0); in.ask(std::uint64_t{1} << 57, 1); }},
      {"query_size_zero", [](Input& in) { in.ask(5, 2097153); in.ask(5, 0); }},
      {"query_size_too_large", [](Input& in) { in.ask(5, 2097153); }},
      {"query_over_remote_block", [](Input& in) { in.config[10] = 1024; in.ask(5, 1025); }},
      {"query_unregistered", [](Input& in) { in.config[14] = 1; in.ask(in.regions[3].start, 5000000); in.size[0] = 2097152; in.ask(base - 1, 1); }},
      {"query_crosses_region", [](Input& in) { in.config[14] = 1; in.ask(in.regions[0].start + in.regions[0].size - 1, 2); }},
  };
  for (const auto& [code, change] : faults) cases.push_back(made(code, "", change));
  cases.push_back(made("edges", "first and last byte, past the end, touching regions", [](Input& in) {
    for (const Region& r : in.regions)
      for (const std::uint64_t at : {r.start - 1, r.start, r.start + r.size - 1, r.start + r.size, r.start + r.size - 8192})
        for (const std::uint64_t bytes : {1, 2, 8192, 8193, 65536, 65537, 2097152}) in.ask(at, bytes);
  }));
  cases.push_back(made("top_of_addresses", "end = 2^57", [](Input& in) {
    in.regions[3].start = (std::uint64_t{1} << 57) - 12345;
    in.ask((std::uint64_t{1} << 57) - 1, 2);
    in.ask((std::uint64_t{1} << 57) - 12346, 2);
  }));
  cases.push_back(made("exhausted_and_recovered", "a tier of 32 blocks, a window of 60", [](Input& in) {
    in.config[9] = 63;
    for (std::uint64_t q = 0; q < 300; ++q) in.ask(base + q, q % 3 ? 2097152 : 1);
  }));
  for (const std::int64_t buckets : {1, 3, 16})
    cases.push_back(made("buckets_" + std::to_string(buckets), "two regions of a tier, blocks in flight from the start, released and taken again", [buckets](Input& in) {
      in.config[3] = buckets;
      in.config[6] = 16;
      const auto b = static_cast<std::uint64_t>(buckets);
      in.regions = {{base, 384 * 8192 * b, 0, 7}, {base + 512 * MiB, 16 * 65536 * b, 1, 8}, {base + 1024 * MiB, 128 * 8192 * b, 0, 9}};
      for (std::uint64_t i = 0; i < 13; ++i) in.inflight.push_back(base + (i % 2 ? 512 * MiB + i * 65536 : i * 3 * 8192));
      in.inflight[4] = base + 1024 * MiB;
      in.inflight[6] = base + 1024 * MiB + 8192;
      for (std::uint64_t q = 0; q < 90; ++q) in.ask(base + q, q % 4 ? 100 : 10000);
    }));
  cases.push_back(made("regular_sizes", "user_memory = 0 and every rule of it kept", [](Input& in) {
    in.config[13] = 0;
    in.config[1] = in.config[2] = 32;
    in.regions[2].size = 32 * MiB;
    in.ask(base, 1);
  }));
  cases.push_back(made("strict", "every payload inside its region", [](Input& in) {
    in.config[14] = 1;
    in.ask(base + 32 * MiB - 1, 1);
    in.ask(base + 32 * MiB, 12345);
  }));
  cases.push_back(made("no_query", "Q = 0, two blocks in flight", [](Input& in) { in.inflight = {base + 64 * MiB, base}; }));
  cases.push_back(made("nothing", "Q = 0, F = 0", [](Input&) {}));
  const auto damaged = [&](const char* name, std::function<void(TensorMap&)> change) {
    cases.push_back({name, "", [=](Random&) {
                       TensorMap inputs = ordinary().tensors();
                       change(inputs);
                       return inputs;
                     }});
  };
  damaged("missing_tensor", [](TensorMap& in) { in.erase("inflight"); });
  damaged("unknown_tensor", [](TensorMap& in) { in.add("extra", Tensor::scalar(1)); });
  damaged("wrong_dtype", [](TensorMap& in) { in.erase("size"); in.add("size", Tensor(Dtype::i64, {0})); });
  damaged("wrong_rank", [](TensorMap& in) { in.erase("size"); in.add("size", Tensor(Dtype::u64, {0, 1})); });
  damaged("dim_mismatch", [](TensorMap& in) { in.erase("size"); in.add("size", Tensor(Dtype::u64, {1})); });
  return cases;
}

TensorMap random_input(Random& random) {
  Input in;
  in.config[3] = random.between(1, 16);
  in.config[6] = random.between(16, 80);
  std::uint64_t at = base;
  std::uint32_t id = 1;
  for (std::int64_t r = random.between(1, 6); r > 0; --r) {
    const bool user = id > 1 && random.chance(0.4);
    const auto type = static_cast<std::int32_t>(user ? 3 : random.below(3));
    const std::uint64_t unit = user ? 1 : in.tiers[static_cast<std::size_t>(type)] * static_cast<std::uint64_t>(in.config[3]);
    if (!user) at = (at + 4095) / 4096 * 4096;
    const std::uint64_t count = user ? static_cast<std::uint64_t>(random.between(1, 100000)) : MiB / unit + static_cast<std::uint64_t>(random.between(1, 3));
    in.regions.push_back({at, count * unit, type, id++});
    at += count * unit + (random.chance(0.5) ? 0 : static_cast<std::uint64_t>(random.between(1, 10000)));
  }
  random.shuffle(in.regions);
  for (const Region& r : in.regions)
    if (r.type < 3)
      for (std::uint64_t k = 0; k * in.tiers[static_cast<std::size_t>(r.type)] < r.size && in.inflight.size() < 13; k += static_cast<std::uint64_t>(random.between(1, 9)))
        if (random.chance(0.5)) in.inflight.push_back(r.start + k * in.tiers[static_cast<std::size_t>(r.type)]);
  random.shuffle(in.inflight);
  for (std::int64_t q = random.between(0, 200); q > 0; --q)
    in.ask(base - 1000 + static_cast<std::uint64_t>(random.below(static_cast<std::int64_t>(at - base) + 2000)), log_uniform(random, 1, random.chance(0.9) ? 70000 : 2097152));
  return in.tensors();
}

TensorMap smoke_input(Random& random) {
  Input in = ordinary();
  in.regions.pop_back();
  for (int q = 0; q < 200; ++q) in.ask(in.regions[static_cast<std::size_t>(random.below(3))].start + static_cast<std::uint64_t>(random.below(32 * MiB)), log_uniform(random, 16, 65536));
  return in.tensors();
}

TensorMap stream_input(Random& random, std::int64_t queries, bool small) {
  Input in;
  for (int r = 0; r < 64; ++r) {
    const std::int32_t type = r < 8 ? 0 : r < 13 ? 1 : r < 16 ? 2 : 3;
    const auto size = static_cast<std::uint64_t>(type == 3 ? random.between(MiB, 64 * MiB) : random.between(8, 128) * 8 * static_cast<std::int64_t>(MiB));
    in.regions.push_back({0, size, type, static_cast<std::uint32_t>(1000 + r)});
  }
  random.shuffle(in.regions);
  std::uint64_t at = base;
  for (Region& r : in.regions) {
    r.start = at;
    at += (r.size + 4095) / 4096 * 4096 + static_cast<std::uint64_t>(random.below(1024)) * 4096;
  }
  random.shuffle(in.regions);
  for (std::int64_t q = 0; q < queries; ++q) {
    const double kind = small ? 0 : random.uniform();
    const std::uint64_t bytes = kind < 0.6 ? log_uniform(random, 16, 512) : static_cast<std::uint64_t>(kind < 0.9 ? random.between(513, 8192) : kind < 0.99 ? random.between(8193, 65536) : random.between(65537, 2097152));
    const Region& r = in.regions[static_cast<std::size_t>(random.below(64))];
    in.ask(random.chance(0.02) ? at + static_cast<std::uint64_t>(random.below(1 << 30)) : r.start + static_cast<std::uint64_t>(random.below(static_cast<std::int64_t>(r.size))), bytes);
  }
  return in.tensors();
}

}  // namespace faibench::rdma_blockpool_window
