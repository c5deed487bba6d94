#include "hdf5/disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace faibench {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view doing, int code) {
  throw Error(Error::Kind::io, path.string() + ": cannot " + std::string(doing) + ": " + std::generic_category().message(code));
}

[[noreturn]] void fail_exists(const std::filesystem::path& path) { throw Error(Error::Kind::io, path.string() + ": exists already"); }

class PosixFile : public DiskFile {
 public:
  PosixFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~PosixFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  std::string read_all() override {
    std::string bytes;
    char chunk[65536];
    for (;;) {
      const ssize_t got = ::pread(descriptor_, chunk, sizeof chunk, static_cast<off_t>(bytes.size()));
      if (got == 0) return bytes;
      if (got > 0) bytes.append(chunk, static_cast<std::size_t>(got));
      else if (errno != EINTR) fail(path_, "read", errno);
    }
  }

  void append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put >= 0) bytes.remove_prefix(static_cast<std::size_t>(put));
      else if (errno != EINTR) fail(path_, "write", errno);
    }
  }

  void sync() override {
    while (::fsync(descriptor_) != 0) {
      if (errno == EINVAL || errno == EROFS) return;  // a pipe or device: nothing to sync
      if (errno != EINTR) fail(path_, "sync", errno);
    }
  }

  void truncate(std::int64_t size) override {
    while (::ftruncate(descriptor_, size) != 0)
      if (errno != EINTR) fail(path_, "shorten", errno);
  }

  std::int64_t size() override {
    struct stat status;
    if (::fstat(descriptor_, &status) != 0) fail(path_, "look at", errno);
    return status.st_size;
  }

  bool try_lock() override {
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP) return true;  // Lustre mounted without flock, some network file systems
      if (errno != EINTR) fail(path_, "lock", errno);
    }
    return true;
  }

  void close() override {
    const int descriptor = std::exchange(descriptor_, -1);
    if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) fail(path_, "close", errno);
  }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

class PosixDisk : public Disk {
 public:
  std::unique_ptr<DiskFile> open(const std::filesystem::path& path, Open how) override {
    int flags = O_CLOEXEC;
    switch (how) {
      case Open::read: flags |= O_RDONLY; break;
      case Open::append: flags |= O_RDWR | O_APPEND; break;
      case Open::append_or_create: flags |= O_RDWR | O_APPEND | O_CREAT; break;
      case Open::create_new: flags |= O_RDWR | O_APPEND | O_CREAT | O_EXCL; break;
    }
    const int descriptor = ::open(path.c_str(), flags | O_NONBLOCK, 0666);  // non-blocking: a FIFO must not hang the open
    if (descriptor < 0) {
      if (errno == EEXIST) fail_exists(path);
      fail(path, how == Open::create_new ? "create" : "open", errno);
    }
    auto file = std::make_unique<PosixFile>(path, descriptor);
    struct stat status;
    if (::fstat(descriptor, &status) == 0 && !S_ISREG(status.st_mode)) throw Error(Error::Kind::io, path.string() + ": not a regular file");
    return file;
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "replace", errno);
  }

  void rename_new(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) fail_exists(to);
    if (errno != EINVAL && errno != ENOSYS) fail(to, "create", errno);
    if (::link(from.c_str(), to.c_str()) != 0) {  // a network file system without the flag
      if (errno == EEXIST) fail_exists(to);
      fail(to, "create", errno);
    }
    remove(from);
  }

  void remove(const std::filesystem::path& path) noexcept override { ::unlink(path.c_str()); }

  void sync_folder(const std::filesystem::path& folder) override {
    const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail(folder, "open", errno);
    const int status = ::fsync(descriptor), code = errno;
    ::close(descriptor);
    if (status != 0 && code != EINVAL) fail(folder, "sync", code);  // EINVAL: the file system keeps folders in order by itself
  }
};

}  // namespace

Disk& Disk::real() {
  static PosixDisk disk;
  return disk;
}

void write_whole_file(Disk& disk, const std::filesystem::path& path, std::string_view bytes, Existing existing) {
  static std::atomic<int> counter = 0;
  std::filesystem::path partial = path;
  partial += ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  try {
    const std::unique_ptr<DiskFile> file = disk.open(partial, Disk::Open::create_new);
    file->append(bytes);
    file->sync();
    file->close();
    if (existing == Existing::replace) disk.rename(partial, path);
    else disk.rename_new(partial, path);
  } catch (const Error&) {
    disk.remove(partial);
    throw;
  }
  disk.sync_folder(path.parent_path());
}

}  // namespace faibench
