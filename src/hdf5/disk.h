// The disk as an interface, so that tests can lose it: a handful of POSIX calls that throw Error(io) with the file's name and the system's reason.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/error.h"

namespace faibench {

/// One open file. Not for several threads at once. The destructor closes and cannot report; sync() and close() do.
class DiskFile {
 public:
  virtual ~DiskFile() = default;
  /// Whole contents from the first byte.
  virtual std::string read_all() = 0;
  /// Appends at the end. On failure some bytes may have been written: truncate() takes them back.
  virtual void append(std::string_view bytes) = 0;
  /// Returns when the bytes are on the device.
  virtual void sync() = 0;
  virtual void truncate(std::int64_t size) = 0;
  [[nodiscard]] virtual std::int64_t size() = 0;
  /// Takes the file for this process alone until it is closed; false if another has it. True where the file system has no locks.
  virtual bool try_lock() = 0;
  virtual void close() = 0;
};

class Disk {
 public:
  enum class Open { read, append, append_or_create, create_new };
  virtual ~Disk() = default;
  /// Throws Error(io); the reason "exists already" for create_new on an existing file.
  virtual std::unique_ptr<DiskFile> open(const std::filesystem::path& path, Open how) = 0;
  /// Replaces `to`.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Throws Error(io) "exists already" instead of replacing.
  virtual void rename_new(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// No error if it is not there.
  virtual void remove(const std::filesystem::path& path) noexcept = 0;
  /// Makes a rename or creation in `folder` durable.
  virtual void sync_folder(const std::filesystem::path& folder) = 0;

  /// The machine's own.
  static Disk& real();
};

/// A whole file or none: written to a temporary beside `path`, synced, renamed. What was at `path` stays as it is on any failure.
enum class Existing { refuse, replace };
void write_whole_file(Disk& disk, const std::filesystem::path& path, std::string_view bytes, Existing existing);

}  // namespace faibench
