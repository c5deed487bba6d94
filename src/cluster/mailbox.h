// Messages between ranks over MPI, without waiting.
#pragma once
#include <mpi.h>

#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "cluster/message.h"

namespace faibench {

/// One for each rank, on a communicator of its own. For one thread. Failures of MPI throw Error(mpi).
class Mailbox {
 public:
  /// Collective: all ranks of `world` make theirs together, and destroy it together before MPI_Finalize.
  explicit Mailbox(MPI_Comm world);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Returns at once; the message leaves while later calls are made. A message to oneself is received like any other.
  void send(int to, const RankMessage& message);
  struct Letter {
    int from;
    RankMessage message;
  };
  /// The next message that is here; empty if there is none.
  std::optional<Letter> receive();
  /// True when everything sent has left.
  bool all_sent();

 private:
  struct Outgoing {
    MPI_Request request = MPI_REQUEST_NULL;
    std::string bytes;
  };
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::list<Outgoing> outgoing_;
  std::deque<RankMessage> to_self_;
};

}  // namespace faibench
