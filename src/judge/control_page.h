// The page that judge and candidate share: one call is a request written by the judge, a hand-over of `turn`, a reply written by the candidate.
// Documented in results/FORMAT.md ("Control page"); bump `version` with every change.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace faibench {

struct ControlPage {
  static constexpr std::uint32_t version_now = 3;
  static constexpr int max_tensors = 64, max_rank = 8;

  enum Turn : std::uint32_t { judge_turn = 0, candidate_turn = 1 };
  enum class Command : std::uint32_t { none, load, call, touch, settle };
  enum class Status : std::uint32_t { none, ok, rejected, failed, out_of_memory };

  struct Slot {
    char name[48];
    std::uint32_t dtype;             // Dtype
    std::uint32_t rank;
    std::int64_t extents[max_rank];
    std::int64_t offset;             // of the first element, from the start of the data region
  };

  std::uint32_t version;
  std::atomic<std::uint32_t> turn;   // the futex word
  // Request
  Command command;
  std::int32_t threads;
  char task[96];
  char variant[4096];                // name, or "library:PATH"
  std::uint32_t inputs, outputs;     // slots[0 .. inputs) and slots[inputs .. inputs + outputs)
  std::int64_t touch_bytes;          // Command::touch: fault in this much of the data region, and open the device memory
  char gpu[64];                      // UUID of the GPU that a device variant runs on; empty: none
  std::int64_t device_generation;    // counts up with every new device memory; 0: none
  std::int64_t device_bytes;         // its size: offsets there are those of the data region
  std::uint32_t device_locked;       // 1: inputs of calls lie in page-locked host memory
  char device_handle[64];            // cudaIpcMemHandle_t
  // Reply
  Status status;
  char code[64];
  char tensor[48];
  std::int64_t index;
  char message[1024];
  std::int64_t lengths[max_tensors]; // true first extent of output i, -1: as in its slot
  Slot slots[max_tensors];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

/// Bytes of the mapping before the data region, and of the whole (address space only: pages come when touched).
inline constexpr std::size_t control_bytes = 64 * 1024;
inline constexpr std::size_t mapping_bytes = std::size_t{1} << 38;
static_assert(sizeof(ControlPage) <= control_bytes);

/// The shared memory is this descriptor in the candidate process.
inline constexpr int arena_descriptor = 3;

/// Sleeps while `word` is `value`, until somebody wakes it. May return early (a signal, a stray wake-up): look at the word again.
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value);
void wake(std::atomic<std::uint32_t>& word);

}  // namespace faibench
