#include "emulator/memory.h"

#include <link.h>

#include <algorithm>
#include <span>

namespace faibench::emulator {

std::string name_of(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::out_of_bounds: return "access out of bounds";
    case Fault::Kind::misaligned: return "misaligned access";
    case Fault::Kind::write_to_input: return "write to an input";
    case Fault::Kind::never_written: return "read of shared memory never written";
    case Fault::Kind::race: return "race on shared memory";
    case Fault::Kind::divergent_barrier: return "divergent barrier";
    case Fault::Kind::divergent_warp: return "divergent warp-wide operation";
    case Fault::Kind::bad_launch: return "bad launch";
    case Fault::Kind::unordered: return "unordered access to device memory";
    case Fault::Kind::unfinished: return "unfinished work";
    case Fault::Kind::bad_stream: return "bad stream";
    case Fault::Kind::host_access: return "access of the host to device memory";
  }
  return "";
}

namespace {

constexpr std::uint32_t lanes = 32;

/// Whether a barrier lies between an access at `then` and one at `now`.
bool ordered(const Moment& then, const Moment& now) {
  if (then.block != now.block || then.thread == now.thread || then.epoch < now.epoch) return true;
  return then.thread / lanes == now.thread / lanes && then.warp_epoch < now.warp_epoch;
}

}  // namespace

SharedHistory::Cell* SharedHistory::at(std::uintptr_t address) {
  const std::uintptr_t number = address / page_bytes;
  if (!last_ || number != last_number_) {
    auto& page = pages_[number];
    if (!page) page = std::make_unique<std::array<Cell, page_bytes>>();
    last_ = page.get();
    last_number_ = number;
  }
  return &(*last_)[address % page_bytes];
}

std::string SharedHistory::access(Cell& cell, bool writes, bool atomic, const Moment& now, Fault::Kind& kind) {
  const auto thread = [](const Moment& moment) { return "thread " + std::to_string(moment.thread) + " of the block"; };
  if ((!writes || atomic) && cell.writer.block != now.block) {
    kind = Fault::Kind::never_written;
    return "nothing of this block has written it";
  }
  if (cell.writer.block == now.block && !ordered(cell.writer, now) && !(atomic && cell.atomic)) {
    kind = Fault::Kind::race;
    return std::string(writes ? "written" : "read") + ", and written by " + thread(cell.writer) + " with no barrier between";
  }
  if (writes && cell.reader.block == now.block && cell.reader.epoch == now.epoch && (cell.several_warps || !ordered(cell.reader, now))) {
    kind = Fault::Kind::race;
    return "written, and read by " + thread(cell.reader) + " with no barrier between";
  }
  if (writes) {
    cell.writer = now;
    cell.atomic = atomic;
  } else {
    const bool same_epoch = cell.reader.block == now.block && cell.reader.epoch == now.epoch;
    cell.several_warps = same_epoch && (cell.several_warps || cell.reader.thread / lanes != now.thread / lanes);
    cell.reader = now;
  }
  return {};
}

// Most accesses are of whole words, whose bytes then share a history: a quarter of the work.
std::string SharedHistory::access(std::uintptr_t address, std::size_t bytes, bool writes, bool atomic, const Moment& now, Fault::Kind& kind) {
  const std::uintptr_t end = address + bytes;
  while (address < end) {
    Cell* const first = at(address / word * word);
    const bool whole = address % word == 0 && end - address >= word;
    if (!whole && !first->apart) {
      for (std::size_t k = 1; k < word; ++k) first[k] = first[0];
      first->apart = true;
    }
    if (!first->apart) {
      if (auto wrong = access(*first, writes, atomic, now, kind); !wrong.empty()) return wrong;
      address += word;
      continue;
    }
    const std::uintptr_t stop = std::min(end, address / word * word + word);
    for (; address < stop; ++address)
      if (auto wrong = access(first[address % word], writes, atomic, now, kind); !wrong.empty()) return wrong;
    if (whole && writes) first->apart = false;  // all four have the same history again, but for who read them before
  }
  return {};
}

void LentMemory::remove(std::uintptr_t first) {
  const auto found = std::ranges::find_if(ranges_, [&](const Range& range) { return range.first == first; });
  if (found != ranges_.end()) ranges_.erase(found);
}

const LentMemory::Range* LentMemory::find(std::uintptr_t address, std::size_t bytes) const {
  const auto found = std::ranges::find_if(ranges_, [&](const Range& range) { return range.holds(address, bytes); });
  return found == ranges_.end() ? nullptr : &*found;
}

std::string LentMemory::whereabouts(std::uintptr_t address) const {
  const Range* nearest = nullptr;
  std::uintptr_t distance = 0;
  for (const Range& range : ranges_) {
    const std::uintptr_t end = range.first + range.bytes, away = address < range.first ? range.first - address : address >= end ? address - end : 0;
    if (nearest && away >= distance) continue;
    nearest = &range;
    distance = away;
  }
  if (!nearest) return "no memory was lent to the device";
  const std::string of = "'" + nearest->name + "' (" + std::to_string(nearest->bytes) + " bytes)";
  if (address < nearest->first) return std::to_string(distance) + " bytes before the start of " + of;
  if (distance == 0 && address < nearest->first + nearest->bytes) return "it runs over the end of " + of;
  return std::to_string(distance) + " bytes past the end of " + of;
}

void StaticStorage::look_up(std::uintptr_t code) {
  if (code == code_) return;
  code_ = code;
  segments_.clear();
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& storage = *static_cast<StaticStorage*>(data);
        std::vector<Segment> segments;
        for (const auto& segment : std::span(info->dlpi_phdr, info->dlpi_phnum))
          if (segment.p_type == PT_LOAD) segments.push_back({info->dlpi_addr + segment.p_vaddr, segment.p_memsz, (segment.p_flags & PF_W) != 0});
        if (std::ranges::none_of(segments, [&](const Segment& segment) { return storage.code_ - segment.first < segment.bytes; })) return 0;
        storage.segments_ = std::move(segments);
        return 1;
      },
      this);
}

StaticStorage::Kind StaticStorage::at(std::uintptr_t address) const {
  const auto found = std::ranges::find_if(segments_, [&](const Segment& segment) { return address - segment.first < segment.bytes; });
  return found == segments_.end() ? Kind::none : found->writable ? Kind::variable : Kind::constant;
}

}  // namespace faibench::emulator
