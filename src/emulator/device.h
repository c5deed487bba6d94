// An emulated GPU: what the owner of its memory and the caller of host code see of it. One a thread of the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulator/fault.h"

namespace faibench::emulator {

/// What an H100-class card allows.
inline constexpr unsigned most_threads = 1024, warp_lanes = 32;
inline constexpr std::size_t most_shared_bytes = 227 << 10;

struct Shape {
  Index grid{1, 1, 1}, block{1, 1, 1};
  std::size_t shared_bytes = 0;  ///< dynamic shared memory
};

/// Kernels may touch these bytes until it is destroyed: device memory that somebody else owns. 256-byte alignment, as cudaMalloc gives, is the owner's business.
class Lent {
 public:
  enum class Access { read, read_write, page_locked };  ///< page_locked: memory of the host, from which copies are asynchronous and kernels may read
  Lent(const void* data, std::size_t bytes, std::string name, Access access);
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent();

 private:
  const void* data_;
};

/// Calls thread(arguments) once for every thread of every block, block after block; a thread gives way at barriers and warp-wide operations. Memory accesses of code compiled with the
/// instrumentation (see instrumentation.cpp) are checked; `arguments` may be read. The first fault ends the kernel; later launches do nothing until it is taken: a sticky error.
/// Runs when `stream` does (streams.h): at once where that is null, the default stream. `arguments` are copied, bytes as they are.
void launch(const void* stream, const std::string& kernel, const Shape& shape, void (*thread)(const void* arguments), const void* arguments, std::size_t argument_bytes);

/// Calls host code as the runner does: with a stream of its own as the current one, whose work it finishes afterwards. Work left on other streams that this one does not wait for is a
/// fault. Gives the call's fault, if any; what `call` throws without one is thrown on.
std::optional<Fault> run_call(const std::function<void()>& call);

/// What streams hold that has not run yet: "kernel add_one on stream 2".
std::vector<std::string> unfinished();

/// The fault since the last time it was taken.
std::optional<Fault> take_fault();

}  // namespace faibench::emulator
