#include "kernels/network/ib_multisend_wr_plan/rules.h"

namespace faibench::ib_multisend_wr_plan {
namespace {

__extension__ using u128 = unsigned __int128;
constexpr u128 two_to_64 = u128{1} << 64;
constexpr std::int64_t most_queue_pairs = 128, most_devices = 8, most_slots = 65536, largest_send = (std::int64_t{1} << 31) - 1;

Rejected check_devices(const Batch& b, const char* name, View<const std::int32_t, 1> devices, const std::string& code, std::int64_t count) {
  for (std::int64_t q = 0; q < b.qp_dev.extent(0); ++q)
    if (devices[q] < 0 || devices[q] >= count) return reject(code, name, q, std::to_string(devices[q]), "devices go from 0 to " + std::to_string(count - 1));
  return std::nullopt;
}

Rejected check_flag(const char* name, std::int32_t value) {
  if (value == 0 || value == 1) return std::nullopt;
  return reject("bad_flag", name, -1, std::to_string(value), "flags are 0 or 1");
}

/// Calls check(k) for all sends until one is rejected.
template <class Check>
Rejected each_send(const Batch& b, Check&& check) {
  for (std::int64_t k = 0; k < b.send_addr.extent(0); ++k)
    if (Rejected rejected = check(k)) return rejected;
  return std::nullopt;
}

/// Calls check(s, r) for all entries in use of the window's slots, from fifo_head on.
template <class Check>
Rejected each_entry(const Batch& b, Check&& check) {
  const std::int64_t credits = credit_window(b).credits;
  const auto F = static_cast<std::uint64_t>(b.cts_idx.extent(0));
  for (std::int64_t c = 0; c < credits; ++c) {
    const auto s = static_cast<std::int64_t>((b.fifo_head + static_cast<std::uint64_t>(c)) % F);
    for (std::int64_t r = 0; r < b.cts_nreqs[s]; ++r)
      if (Rejected rejected = check(s, r)) return rejected;
  }
  return std::nullopt;
}

}  // namespace

bool slot_ready(const Batch& b, std::int64_t slot, std::uint64_t id) {
  bool ready = b.cts_idx(slot, 0) == id + 1;
  for (std::int64_t r = 1; r < entries && r < b.cts_nreqs[slot]; ++r) ready = ready && b.cts_idx(slot, r) == id + 1;
  return ready;
}

Window credit_window(const Batch& b) {
  Window window;
  const std::int64_t F = b.cts_idx.extent(0);
  while (window.credits < F) {
    const std::uint64_t id = b.fifo_head + static_cast<std::uint64_t>(window.credits);
    const auto s = static_cast<std::int64_t>(id % static_cast<std::uint64_t>(F));
    const bool arrived = b.cts_idx(s, 0) == id + 1;
    if (arrived && (b.cts_nreqs[s] == 0 || b.cts_nreqs[s] > entries)) {
      window.rejected = reject("bad_nreqs", "cts_nreqs", s, std::to_string(b.cts_nreqs[s]), "a slot that has arrived has 1 to 8 entries");
      return window;
    }
    if (!slot_ready(b, s, id)) return window;
    ++window.credits;
  }
  return window;
}

void add_rules(Contract& contract) {
  const auto rule = [&](const char* code, const char* condition, CheckedBy by, Rejected (*check)(const Batch&)) {
    contract.rule(code, condition, by, [check](const TensorRefMap& inputs) { return check(batch_of(inputs)); });
  };
  const auto of_runner = [&](const char* code, const char* condition, Rejected (*check)(const Batch&)) { rule(code, condition, CheckedBy::runner, check); };
  const auto of_variant = [&](const char* code, const char* condition, Rejected (*check)(const Batch&)) { rule(code, condition, CheckedBy::variant, check); };

  of_runner("bad_qp_count", "Q = 0 or Q > 128", [](const Batch& b) -> Rejected {
    if (const std::int64_t Q = b.qp_dev.extent(0); Q < 1 || Q > most_queue_pairs) return reject("bad_qp_count", "qp_dev", -1, std::to_string(Q) + " queue pairs", "there are 1 to 128");
    return std::nullopt;
  });
  of_runner("bad_device_count", "L or R is 0 or > 8", [](const Batch& b) -> Rejected {
    if (const std::int64_t L = b.lkeys.extent(1); L < 1 || L > most_devices) return reject("bad_device_count", "lkeys", -1, "of " + std::to_string(L) + " local devices", "there are 1 to 8");
    if (const std::int64_t R = b.cts_rkeys.extent(2); R < 1 || R > most_devices) return reject("bad_device_count", "cts_rkeys", -1, "of " + std::to_string(R) + " remote devices", "there are 1 to 8");
    return std::nullopt;
  });
  of_runner("bad_qp_device", "qp_dev outside [0,L)", [](const Batch& b) { return check_devices(b, "qp_dev", b.qp_dev, "bad_qp_device", b.lkeys.extent(1)); });
  of_runner("bad_qp_remote_device", "qp_rem_dev outside [0,R)", [](const Batch& b) { return check_devices(b, "qp_rem_dev", b.qp_rem_dev, "bad_qp_remote_device", b.cts_rkeys.extent(2)); });
  of_runner("bad_flag", "split_on_qps, adaptive_routing, ooo_rq, match_by_id not 0 or 1 (in this order)", [](const Batch& b) -> Rejected {
    if (Rejected rejected = check_flag("split_on_qps", b.split_on_qps)) return rejected;
    if (Rejected rejected = check_flag("adaptive_routing", b.adaptive_routing)) return rejected;
    if (Rejected rejected = check_flag("ooo_rq", b.ooo_rq)) return rejected;
    return check_flag("match_by_id", b.match_by_id);
  });
  of_runner("bad_n_data_qps", "n_data_qps outside [1,Q]", [](const Batch& b) -> Rejected {
    if (b.n_data_qps >= 1 && b.n_data_qps <= b.qp_dev.extent(0)) return std::nullopt;
    return reject("bad_n_data_qps", "n_data_qps", -1, std::to_string(b.n_data_qps), "there are " + std::to_string(b.qp_dev.extent(0)) + " queue pairs");
  });
  of_runner("bad_ar_threshold", "ar_threshold negative", [](const Batch& b) -> Rejected {
    if (b.ar_threshold >= 0) return std::nullopt;
    return reject("bad_ar_threshold", "ar_threshold", -1, std::to_string(b.ar_threshold), "a number of bytes");
  });
  of_runner("bad_fifo_depth", "F = 0 or F > 65536", [](const Batch& b) -> Rejected {
    if (const std::int64_t F = b.cts_idx.extent(0); F < 1 || F > most_slots) return reject("bad_fifo_depth", "cts_idx", -1, "of " + std::to_string(F) + " slots", "there are 1 to 65536");
    return std::nullopt;
  });
  of_runner("bad_fifo_width", "E is not 8", [](const Batch& b) -> Rejected {
    if (const std::int64_t E = b.cts_idx.extent(1); E != entries) return reject("bad_fifo_width", "cts_idx", -1, "of " + std::to_string(E) + " entries a slot", "there are 8");
    return std::nullopt;
  });
  of_runner("null_report_addr", "report_addr or remote_report_addr is 0", [](const Batch& b) -> Rejected {
    if (b.report_addr == 0) return reject("null_report_addr", "report_addr", -1, "0", "size reports need a place");
    if (b.remote_report_addr == 0) return reject("null_report_addr", "remote_report_addr", -1, "0", "size reports need a place");
    return std::nullopt;
  });
  of_variant("bad_mr", "send_mr outside [0,M)", [](const Batch& b) {
    return each_send(b, [&](std::int64_t k) -> Rejected {
      if (b.send_mr[k] >= 0 && b.send_mr[k] < b.lkeys.extent(0)) return std::nullopt;
      return reject("bad_mr", "send_mr", k, std::to_string(b.send_mr[k]), "there are " + std::to_string(b.lkeys.extent(0)) + " memory regions");
    });
  });
  of_variant("negative_size", "send_size < 0", [](const Batch& b) {
    return each_send(b, [&](std::int64_t k) -> Rejected {
      if (b.send_size[k] >= 0) return std::nullopt;
      return reject("negative_size", "send_size", k, std::to_string(b.send_size[k]), "a number of bytes");
    });
  });
  of_variant("size_too_large", "send_size > 2^31-1", [](const Batch& b) {
    return each_send(b, [&](std::int64_t k) -> Rejected {
      if (b.send_size[k] <= largest_send) return std::nullopt;
      return reject("size_too_large", "send_size", k, std::to_string(b.send_size[k]), "2^31-1 bytes at most");
    });
  });
  of_variant("null_send_addr", "send_addr = 0 with send_size > 0", [](const Batch& b) {
    return each_send(b, [&](std::int64_t k) -> Rejected {
      if (b.send_addr[k] != 0 || b.send_size[k] == 0) return std::nullopt;
      return reject("null_send_addr", "send_addr", k, "0", "the send has " + std::to_string(b.send_size[k]) + " bytes");
    });
  });
  of_variant("send_wraps", "send_addr + send_size > 2^64", [](const Batch& b) {
    return each_send(b, [&](std::int64_t k) -> Rejected {
      if (u128{b.send_addr[k]} + static_cast<std::uint64_t>(b.send_size[k]) <= two_to_64) return std::nullopt;
      return reject("send_wraps", "send_addr", k, std::to_string(b.send_addr[k]), std::to_string(b.send_size[k]) + " bytes from there pass 2^64");
    });
  });
  of_variant("bad_nreqs", "in the credit walk: cts_nreqs = 0 or > 8", [](const Batch& b) { return credit_window(b).rejected; });
  of_variant("cts_null_addr", "an entry r < nreqs of a slot in the window has address 0", [](const Batch& b) {
    return each_entry(b, [&](std::int64_t s, std::int64_t r) -> Rejected {
      if (b.cts_addr(s, r) != 0) return std::nullopt;
      return reject("cts_null_addr", "cts_addr", s * entries + r, "0", "the entry is in use");
    });
  });
  of_variant("cts_zero_rkey", "such an entry has cts_rkeys[s,r,0] = 0", [](const Batch& b) {
    return each_entry(b, [&](std::int64_t s, std::int64_t r) -> Rejected {
      if (b.cts_rkeys(s, r, 0) != 0) return std::nullopt;
      return reject("cts_zero_rkey", "cts_rkeys", (s * entries + r) * b.cts_rkeys.extent(2), "0", "the entry is in use");
    });
  });
  of_variant("cts_wraps", "such an entry has address + size > 2^64", [](const Batch& b) {
    return each_entry(b, [&](std::int64_t s, std::int64_t r) -> Rejected {
      if (u128{b.cts_addr(s, r)} + b.cts_size(s, r) <= two_to_64) return std::nullopt;
      return reject("cts_wraps", "cts_addr", s * entries + r, std::to_string(b.cts_addr(s, r)), std::to_string(b.cts_size(s, r)) + " bytes from there pass 2^64");
    });
  });
}

}  // namespace faibench::ib_multisend_wr_plan
