#include "cluster/mailbox.h"

#include <array>
#include <limits>

#include "tensor/error.h"

namespace faibench {
namespace {

constexpr int tag = 1;

void check(int status) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw Error(Error::Kind::mpi, "MPI: " + std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace

Mailbox::Mailbox(MPI_Comm world) {
  check(MPI_Comm_dup(world, &communicator_));
  check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(communicator_, &rank_));
  check(MPI_Comm_size(communicator_, &size_));
}

Mailbox::~Mailbox() {
  for (Outgoing& out : outgoing_) {  // a receiver that is gone: give the request back to MPI rather than wait for it
    if (out.request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&out.request);
    MPI_Request_free(&out.request);
  }
  MPI_Comm_free(&communicator_);
}

void Mailbox::send(int to, const RankMessage& message) {
  if (to == rank_) return to_self_.push_back(message);
  Outgoing& out = outgoing_.emplace_back();
  out.bytes = encode(message);
  if (out.bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    outgoing_.pop_back();
    throw Error(Error::Kind::internal, "a message of more than 2 GiB between ranks");
  }
  check(MPI_Isend(out.bytes.data(), static_cast<int>(out.bytes.size()), MPI_CHAR, to, tag, communicator_, &out.request));
}

std::optional<Mailbox::Letter> Mailbox::receive() {
  all_sent();  // lets large messages move
  if (!to_self_.empty()) {
    Letter letter{rank_, std::move(to_self_.front())};
    to_self_.pop_front();
    return letter;
  }
  if (size_ == 1) return std::nullopt;
  int here = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, tag, communicator_, &here, &handle, &status));
  if (!here) return std::nullopt;
  int length = 0;
  check(MPI_Get_count(&status, MPI_CHAR, &length));
  std::string bytes(static_cast<std::size_t>(length), '\0');
  const int from = status.MPI_SOURCE;
  check(MPI_Mrecv(bytes.data(), length, MPI_CHAR, &handle, MPI_STATUS_IGNORE));
  return Letter{from, decode(bytes)};
}

bool Mailbox::all_sent() {
  for (auto out = outgoing_.begin(); out != outgoing_.end();) {
    int done = 0;
    check(MPI_Test(&out->request, &done, MPI_STATUS_IGNORE));
    out = done ? outgoing_.erase(out) : std::next(out);
  }
  return outgoing_.empty();
}

}  // namespace faibench
