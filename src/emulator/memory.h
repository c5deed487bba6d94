// Which memory a kernel may touch, and what happened to its shared memory.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/fault.h"

namespace faibench::emulator {

/// When an access took place, as far as barriers order it.
struct Moment {
  std::uint32_t block = 0;       ///< number of the block, from 1, over all launches
  std::uint32_t epoch = 0;       ///< of block-wide barriers, over all blocks
  std::uint32_t warp_epoch = 0;  ///< of warp-wide operations of the thread's warp
  std::uint32_t thread = 0;      ///< within the block
};

/// The history of every byte of shared memory in the block that runs: who wrote it, who read it, since which barrier.
class SharedHistory {
 public:
  /// Notes the access; says what is wrong with it, or an empty string. `kind` is set with it.
  std::string access(std::uintptr_t address, std::size_t bytes, bool writes, bool atomic, const Moment& now, Fault::Kind& kind);

 private:
  struct Cell {
    Moment writer, reader;
    bool atomic = false;         // the last write was
    bool several_warps = false;  // have read it in reader.epoch
    bool apart = false;          // first cell of a word: its four bytes have histories of their own; else this one is that of all
  };
  static constexpr std::size_t page_bytes = 1024, word = 4;
  Cell* at(std::uintptr_t address);
  static std::string access(Cell& cell, bool writes, bool atomic, const Moment& now, Fault::Kind& kind);
  std::unordered_map<std::uintptr_t, std::unique_ptr<std::array<Cell, page_bytes>>> pages_;
  std::uintptr_t last_number_ = 0;
  std::array<Cell, page_bytes>* last_ = nullptr;
};

/// Device memory lent to the emulator.
class LentMemory {
 public:
  void add(std::uintptr_t first, std::size_t bytes, std::string name, bool writable, bool page_locked = false) { ranges_.push_back({first, bytes, std::move(name), writable, page_locked}); }
  void remove(std::uintptr_t first);
  struct Range {
    std::uintptr_t first;
    std::size_t bytes;
    std::string name;
    bool writable, page_locked;
    [[nodiscard]] bool holds(std::uintptr_t address, std::size_t count) const { return address >= first && count <= bytes && address - first <= bytes - count; }
  };
  [[nodiscard]] const Range* find(std::uintptr_t address, std::size_t bytes) const;
  /// "4 bytes past the end of 'y' (4096 bytes)", for an address that is in none.
  [[nodiscard]] std::string whereabouts(std::uintptr_t address) const;

 private:
  std::vector<Range> ranges_;
};

/// Variables with static storage in the program or library that some code belongs to: of a kernel's, those that can be written are its static shared memory.
class StaticStorage {
 public:
  enum class Kind { none, constant, variable };
  /// Looks the segments up if the code is another's than the last time.
  void look_up(std::uintptr_t code);
  [[nodiscard]] Kind at(std::uintptr_t address) const;

 private:
  struct Segment {
    std::uintptr_t first, bytes;
    bool writable;
  };
  std::uintptr_t code_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace faibench::emulator
