// The 76 rejections of rdma_blockpool_window, in the contract's order: each row runs over all elements before the next one starts.
#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "kernels/network/rdma_blockpool_window/cases.h"

namespace faibench::rdma_blockpool_window {
namespace {

constexpr std::uint64_t top = std::uint64_t{1} << 57;

struct In {
  std::span<const std::int64_t> config;
  std::span<const std::uint64_t> tiers, start, size, inflight, addr, length;
  std::span<const std::int32_t> type;
  std::span<const std::uint32_t> id;

  explicit In(const TensorRefMap& t)
      : config(t.at("config").flat<const std::int64_t>()), tiers(t.at("tiers").flat<const std::uint64_t>()), start(t.at("region_start").flat<const std::uint64_t>()),
        size(t.at("region_size").flat<const std::uint64_t>()), inflight(t.at("inflight").flat<const std::uint64_t>()), addr(t.at("addr").flat<const std::uint64_t>()),
        length(t.at("size").flat<const std::uint64_t>()), type(t.at("region_type").flat<const std::int32_t>()), id(t.at("region_id").flat<const std::uint32_t>()) {}
  [[nodiscard]] bool pool(std::size_t r) const { return type[r] < 3; }
  [[nodiscard]] std::uint64_t unit(std::size_t r) const { return tiers[static_cast<std::size_t>(type[r])]; }
  [[nodiscard]] std::uint64_t buckets() const { return static_cast<std::uint64_t>(config[3]); }
  [[nodiscard]] std::size_t first_pool() const { return static_cast<std::size_t>(std::find_if(type.begin(), type.end(), [](std::int32_t t) { return t < 3; }) - type.begin()); }
  [[nodiscard]] std::int64_t users() const { return std::count(type.begin(), type.end(), 3); }
  [[nodiscard]] std::size_t region_of(std::uint64_t a) const {  // R if there is none
    std::size_t r = 0;
    while (r < start.size() && !(a >= start[r] && a - start[r] < size[r])) ++r;
    return r;
  }
  [[nodiscard]] bool overlaps(std::size_t r) const {
    for (std::size_t s = 0; s < r; ++s)
      if (start[s] < start[r] + size[r] && start[r] < start[s] + size[s]) return true;
    return false;
  }
  [[nodiscard]] std::uint64_t regular(std::size_t r, std::int64_t megabytes) const { return (static_cast<std::uint64_t>(megabytes) << 20) / unit(r) / buckets() * unit(r) * buckets(); }
  [[nodiscard]] bool crosses(std::size_t q) const {
    const std::size_t r = region_of(addr[q]);
    return start[r] + size[r] - addr[q] < length[q];
  }
};

std::string value_at(const TensorRef& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case Dtype::i32: return std::to_string(tensor.flat<const std::int32_t>()[i]);
    case Dtype::u32: return std::to_string(tensor.flat<const std::uint32_t>()[i]);
    case Dtype::u64: return std::to_string(tensor.flat<const std::uint64_t>()[i]);
    default: return std::to_string(tensor.flat<const std::int64_t>()[i]);
  }
}

template <class Bad>
void each(Contract& c, const char* code, const char* condition, const char* tensor, Bad bad) {
  c.rule(code, condition, CheckedBy::runner, [=](const TensorRefMap& inputs) -> Rejected {
    const In in(inputs);
    const auto count = static_cast<std::size_t>(inputs.at(tensor).size());
    for (std::size_t i = 0; i < count; ++i)
      if (bad(in, i)) return reject(code, tensor, static_cast<std::int64_t>(i), value_at(inputs.at(tensor), i), condition);
    return std::nullopt;
  });
}

template <class Bad>
void whole(Contract& c, const char* code, const char* condition, const char* tensor, Bad bad) {
  c.rule(code, condition, CheckedBy::runner, [=](const TensorRefMap& inputs) -> Rejected {
    if (!bad(In(inputs))) return std::nullopt;
    return reject(code, tensor, -1, "of length " + std::to_string(inputs.at(tensor).size()), condition);
  });
}

}  // namespace

const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> list = {
    {"max_regions", 1, 16},
    {"initial_size_mb", 32, 1048576},
    {"increase_size_mb", 32, 1048576},
    {"buckets", 1, 16},
    {"tls_cache_num", 0, 65536},
    {"recv_block_type", 0, 2},
    {"sq_size", 16, 4096},
    {"rq_size", 16, 4096},
    {"remote_sq_size", 16, 4096},
    {"remote_rq_size", 16, 4096},
    {"remote_block_size", 1024, 2097152},
    {"max_sge", 1, 64},
    {"zerocopy_min_size", 0, 2097152},
    {"user_memory", 0, 1},
    {"strict", 0, 1},
    {"cqe_poll_once", 1, 1024}};
  return list;
}

void add_rules(Contract& c) {
  whole(c, "bad_config_length", "C != 16", "config", [](const In& in) { return in.config.size() != 16; });
  for (std::size_t p = 0; p < parameters().size(); ++p) {
    const auto [name, low, high] = parameters()[p];
    const auto side = [&](const std::string& code, const std::string& condition, auto bad) {
      c.rule(code, condition, CheckedBy::runner, [=](const TensorRefMap& inputs) -> Rejected {
        const std::int64_t value = inputs.at("config").flat<const std::int64_t>()[p];
        if (!bad(value)) return std::nullopt;
        return reject(code, "config", static_cast<std::int64_t>(p), std::to_string(value), condition);
      });
    };
    side(name + "_low", name + " < " + std::to_string(low), [low](std::int64_t v) { return v < low; });
    side(name + "_high", name + " > " + std::to_string(high), [high](std::int64_t v) { return v > high; });
  }
  whole(c, "bad_tier_count", "T != 3", "tiers", [](const In& in) { return in.tiers.size() != 3; });
  each(c, "tier_zero", "a tier is 0", "tiers", [](const In& in, std::size_t i) { return in.tiers[i] == 0; });
  each(c, "tier_not_power_of_two", "a tier is no power of two", "tiers", [](const In& in, std::size_t i) { return !std::has_single_bit(in.tiers[i]); });
  each(c, "tier_below_page", "a tier < 4096", "tiers", [](const In& in, std::size_t i) { return in.tiers[i] < 4096; });
  each(c, "tier_above_max", "a tier > 2097152", "tiers", [](const In& in, std::size_t i) { return in.tiers[i] > 2097152; });
  each(c, "tier_not_increasing", "tiers[t] <= tiers[t-1]", "tiers", [](const In& in, std::size_t i) { return i > 0 && in.tiers[i] <= in.tiers[i - 1]; });
  each(c, "tier_not_standard", "tiers are not 8192, 65536, 2097152", "tiers", [](const In& in, std::size_t i) { return in.tiers[i] != std::array<std::uint64_t, 3>{8192, 65536, 2097152}[i]; });
  whole(c, "no_regions", "R = 0", "region_start", [](const In& in) { return in.start.empty(); });
  each(c, "region_type_negative", "type < 0", "region_type", [](const In& in, std::size_t i) { return in.type[i] < 0; });
  each(c, "region_type_unknown", "type > 3", "region_type", [](const In& in, std::size_t i) { return in.type[i] > 3; });
  whole(c, "no_pool_region", "no region of type 0-2", "region_type", [](const In& in) { return in.first_pool() == in.type.size(); });
  whole(c, "too_many_pool_regions", "more pool regions than max_regions", "region_type", [](const In& in) { return static_cast<std::int64_t>(in.type.size()) - in.users() > in.config[0]; });
  whole(c, "too_many_user_regions", "more than 4096 of type 3", "region_type", [](const In& in) { return in.users() > 4096; });
  each(c, "region_null_start", "start = 0", "region_start", [](const In& in, std::size_t i) { return in.start[i] == 0; });
  each(c, "region_size_zero", "size = 0", "region_size", [](const In& in, std::size_t i) { return in.size[i] == 0; });
  each(c, "region_wraps", "end > 2^64", "region_start", [](const In& in, std::size_t i) { return in.size[i] > 0 - in.start[i]; });
  each(c, "region_noncanonical", "end > 2^57", "region_start", [](const In& in, std::size_t i) { return in.start[i] > top || in.size[i] > top - in.start[i]; });
  each(c, "region_start_unaligned", "pool, start not a multiple of 4096", "region_start", [](const In& in, std::size_t i) { return in.pool(i) && in.start[i] % 4096 != 0; });
  each(c, "region_too_small", "pool, size < 2^20", "region_size", [](const In& in, std::size_t i) { return in.pool(i) && in.size[i] < (1 << 20); });
  each(c, "region_too_large", "size > 2^40", "region_size", [](const In& in, std::size_t i) { return in.size[i] > std::uint64_t{1} << 40; });
  each(c, "region_size_not_blocks", "pool, size not a multiple of its tier", "region_size", [](const In& in, std::size_t i) { return in.pool(i) && in.size[i] % in.unit(i) != 0; });
  each(c, "region_size_not_buckets", "pool, size not a multiple of tier * buckets", "region_size", [](const In& in, std::size_t i) { return in.pool(i) && in.size[i] % (in.unit(i) * in.buckets()) != 0; });
  each(c, "region_id_zero", "id = 0", "region_id", [](const In& in, std::size_t i) { return in.id[i] == 0; });
  each(c, "region_id_reserved", "id = 2^32 - 1", "region_id", [](const In& in, std::size_t i) { return in.id[i] == 0xFFFFFFFFu; });
  each(c, "region_duplicate_start", "start equals that of an earlier region", "region_start", [](const In& in, std::size_t i) { return std::find(in.start.begin(), in.start.begin() + static_cast<std::ptrdiff_t>(i), in.start[i]) != in.start.begin() + static_cast<std::ptrdiff_t>(i); });
  each(c, "region_overlap", "overlaps an earlier region", "region_start", [](const In& in, std::size_t i) { return in.overlaps(i); });
  each(c, "first_region_not_recv_type", "user_memory = 0: type of the first pool region is not recv_block_type", "region_type", [](const In& in, std::size_t i) { return in.config[13] == 0 && i == in.first_pool() && in.type[i] != in.config[5]; });
  each(c, "initial_region_size", "user_memory = 0: size of the first pool region is not the regular size of initial_size_mb", "region_size", [](const In& in, std::size_t i) { return in.config[13] == 0 && i == in.first_pool() && in.size[i] != in.regular(i, in.config[1]); });
  each(c, "increase_region_size", "user_memory = 0: size of a later pool region is not the regular size of increase_size_mb", "region_size", [](const In& in, std::size_t i) { return in.config[13] == 0 && in.pool(i) && i > in.first_pool() && in.size[i] != in.regular(i, in.config[2]); });
  whole(c, "inflight_over_window", "F > W", "inflight", [](const In& in) { return static_cast<std::int64_t>(in.inflight.size()) > std::min(in.config[6], in.config[9]) - 3; });
  each(c, "inflight_null", "0", "inflight", [](const In& in, std::size_t i) { return in.inflight[i] == 0; });
  each(c, "inflight_unregistered", "in no region", "inflight", [](const In& in, std::size_t i) { return in.region_of(in.inflight[i]) == in.start.size(); });
  each(c, "inflight_in_user_region", "in a user region", "inflight", [](const In& in, std::size_t i) { return !in.pool(in.region_of(in.inflight[i])); });
  each(c, "inflight_misaligned", "not at a multiple of the tier from its region's start", "inflight", [](const In& in, std::size_t i) { return (in.inflight[i] - in.start[in.region_of(in.inflight[i])]) % in.unit(in.region_of(in.inflight[i])) != 0; });
  each(c, "inflight_duplicate", "equals an earlier one", "inflight", [](const In& in, std::size_t i) { return std::find(in.inflight.begin(), in.inflight.begin() + static_cast<std::ptrdiff_t>(i), in.inflight[i]) != in.inflight.begin() + static_cast<std::ptrdiff_t>(i); });
  whole(c, "stream_too_long", "Q > 2^20", "addr", [](const In& in) { return in.addr.size() > (1 << 20); });
  each(c, "query_null_addr", "addr = 0", "addr", [](const In& in, std::size_t i) { return in.addr[i] == 0; });
  each(c, "query_noncanonical", "addr >= 2^57", "addr", [](const In& in, std::size_t i) { return in.addr[i] >= top; });
  each(c, "query_size_zero", "size = 0", "size", [](const In& in, std::size_t i) { return in.length[i] == 0; });
  each(c, "query_size_too_large", "size > 2097152", "size", [](const In& in, std::size_t i) { return in.length[i] > 2097152; });
  each(c, "query_over_remote_block", "size > remote_block_size", "size", [](const In& in, std::size_t i) { return in.length[i] > static_cast<std::uint64_t>(in.config[10]); });
  each(c, "query_unregistered", "strict: addr in no region", "addr", [](const In& in, std::size_t i) { return in.config[14] == 1 && in.region_of(in.addr[i]) == in.start.size(); });
  each(c, "query_crosses_region", "strict: span < size", "size", [](const In& in, std::size_t i) { return in.config[14] == 1 && in.crosses(i); });
}

}  // namespace faibench::rdma_blockpool_window
