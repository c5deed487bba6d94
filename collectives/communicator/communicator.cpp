#include "communicator/communicator.h"

#include <string>

#include "tensor/error.h"

namespace faibench {

void Communicator::read_peer(int rank, const void*, void*, std::int64_t) {
  throw Error(Error::Kind::internal, std::string(transport()) + " cannot read memory of rank " + std::to_string(rank) + ": ask reads_peers() first");
}

std::byte* Communicator::scratch(std::int64_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();  // first: both together may not fit
    scratch_bytes_ = 0;
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

}  // namespace faibench
