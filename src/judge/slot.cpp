#include "judge/slot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tensor/error.h"

namespace faibench {

SlotLock::SlotLock(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) {
      const std::string reason = std::strerror(errno);
      release();
      throw Error(Error::Kind::io, file + ": cannot open the timing slot: " + reason);
    }
    descriptors_.push_back(descriptor);
    while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {}
  }
}

SlotLock::~SlotLock() { release(); }
SlotLock::SlotLock(SlotLock&& other) noexcept : descriptors_(std::exchange(other.descriptors_, {})) {}
SlotLock& SlotLock::operator=(SlotLock&& other) noexcept {
  std::swap(descriptors_, other.descriptors_);
  return *this;
}

void SlotLock::release() noexcept {
  for (int descriptor : descriptors_) close(descriptor);
  descriptors_.clear();
}

}  // namespace faibench
