// The ranks of one node among those of an MPI group: shared memory, a barrier of flags in it, reads of each other's memory.
#pragma once
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.h"

namespace faibench {

/// Turns an MPI status that is no success into Error(mpi) naming the call.
void check_mpi(int status, const char* call);

/// Collective over the whole group, like everything in it unless said otherwise.
class MpiNode {
 public:
  /// `ranks_per_node` 0: ask MPI. `all` must outlive this.
  MpiNode(MPI_Comm all, int ranks_per_node, bool shared_memory, bool peer_reads);
  MpiNode(const MpiNode&) = delete;
  MpiNode& operator=(const MpiNode&) = delete;
  ~MpiNode();

  [[nodiscard]] const NodeMap& map() const { return map_; }
  std::unique_ptr<SharedMemory> share(std::int64_t bytes);
  [[nodiscard]] const std::string& why_not_shared() const { return why_not_shared_; }
  /// Over the ranks of the node alone.
  void barrier();
  /// See Communicator::board().
  Board* board();
  /// Not collective.
  [[nodiscard]] const std::byte* peer_address(int rank, const void* own) const;
  [[nodiscard]] bool reads_peers() const { return reads_peers_; }
  void read_peer(int rank, const void* theirs, void* here, std::int64_t bytes) const;

 private:
  class Window;
  class Flags;  // one a rank, in shared memory: who raises its own waits for all
  class Slots;
  struct Windows;  // those alive: addresses are looked up in them

  std::int64_t least_of_all(std::int64_t value) const;
  std::vector<int> local_of_rank() const;  // -1 on other nodes
  std::unique_ptr<Window> make_window(std::int64_t bytes);  // what share() gives
  void make_flags();
  void probe_peer_reads();
  void progress() const;

  MPI_Comm all_, node_ = MPI_COMM_NULL;
  int rank_ = 0;
  NodeMap map_;
  bool shared_memory_, reads_peers_ = false;
  std::string why_not_shared_;
  std::shared_ptr<Windows> windows_;
  bool asked_for_flags_ = false, asked_for_board_ = false;
  std::unique_ptr<Flags> flags_;  // of the barrier; made at the first one
  std::unique_ptr<Slots> board_;
  bool crowded_ = false;            // more ranks than processors: who waits lets others run
  std::vector<std::int64_t> process_ids_;  // by rank; 0 on other nodes
};

}  // namespace faibench
