#include "communicator/communicator.h"

#include <string>

#include "tensor/error.h"

namespace faibench {

void Communicator::read_peer(int rank, const void*, void*, std::int64_t) {
  throw Error(Error::Kind::internal, std::string(transport()) + " cannot read memory of rank " + std::to_string(rank) + ": ask reads_peers() first");
}

}  // namespace faibench
