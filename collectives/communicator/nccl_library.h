// The calls of NCCL and of the CUDA runtime that the NCCL transport makes. One implementation loads the libraries; tests have another, in which ranks are threads.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/dtype.h"

namespace faibench {

enum class Reduce;

/// One rank's view of the library. All calls but state(), ready() and abort() only put work on a stream of that rank. Failures throw Error(mpi).
class NcclLibrary {
 public:
  using Id = std::array<char, 128>;
  struct Group;  ///< ncclComm_t, or the double's own
  struct State {
    bool pending = false;
    std::string error;  ///< what went wrong, here or at a peer; empty: nothing
  };
  virtual ~NcclLibrary() = default;

  /// Made by one rank, given to all.
  virtual Id unique_id() = 0;
  /// Non-blocking: poll state() until it is no longer pending.
  virtual Group* start(const Id& id, int ranks, int rank) = 0;
  virtual Group* split(Group* group, int color, int key) = 0;  ///< negative color: null
  virtual State state(Group* group) = 0;
  /// Ends a group whose peers are well, and one whose peers may be gone.
  virtual void destroy(Group* group) = 0;
  virtual void abort(Group* group) = 0;

  /// Calls between these two are one operation: they progress together.
  virtual void begin() = 0;
  virtual void end(Group* group) = 0;
  virtual void send(Group* group, const void* device, std::int64_t count, Dtype dtype, int to) = 0;
  virtual void receive(Group* group, void* device, std::int64_t count, Dtype dtype, int from) = 0;
  virtual void all_reduce(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) = 0;
  virtual void reduce(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op, int root) = 0;
  virtual void broadcast(Group* group, const void* in, void* out, std::int64_t count, Dtype dtype, int root) = 0;

  /// Device memory, and copies on the stream (asynchronous where the host side is pinned).
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void free(void* device) = 0;
  virtual void copy_in(void* device, const void* host, std::int64_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::int64_t bytes) = 0;
  /// Whether everything on the stream so far is done.
  virtual bool ready() = 0;
};

/// The system's NCCL on GPU `device`. Null where there is no libnccl.so.2, no driver or no such GPU; `why` says which.
std::unique_ptr<NcclLibrary> load_nccl(int device, std::string& why);

}  // namespace faibench
