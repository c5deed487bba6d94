// A disk in memory that can be full, fail and lose power: what was not synced is gone.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hdf5/disk.h"

namespace faibench::testing_support {

class FaultyDisk : public Disk {
 public:
  struct Stored {
    std::string bytes, synced;
    bool locked = false;
  };
  std::map<std::string, std::shared_ptr<Stored>> files;
  std::int64_t room = -1;               ///< bytes that may still be written before "No space left on device"; -1: no end
  std::set<std::string> failing;        ///< operations that fail: "sync", "truncate", "rename", "close", "open"
  std::vector<std::string> done;        ///< what happened, in order

  /// The power goes: only synced bytes remain, and no locks.
  void lose_power() {
    for (auto& [name, file] : files) {
      file = std::make_shared<Stored>(Stored{file->synced, file->synced, false});
    }
  }

  std::unique_ptr<DiskFile> open(const std::filesystem::path& path, Open how) override {
    act("open", path.string());
    auto& file = files[path.string()];
    if (file && how == Open::create_new) throw Error(Error::Kind::io, path.string() + ": exists already");
    if (!file && (how == Open::read || how == Open::append)) {
      files.erase(path.string());
      throw Error(Error::Kind::io, path.string() + ": cannot open: No such file or directory");
    }
    if (!file) file = std::make_shared<Stored>();
    return std::make_unique<File>(*this, path.string(), file);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    act("rename", to.string());
    files[to.string()] = files.at(from.string());
    files.erase(from.string());
  }
  void rename_new(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (files.contains(to.string())) throw Error(Error::Kind::io, to.string() + ": exists already");
    rename(from, to);
  }
  void remove(const std::filesystem::path& path) noexcept override { files.erase(path.string()); }
  void sync_folder(const std::filesystem::path&) override { done.emplace_back("sync_folder"); }

 private:
  class File : public DiskFile {
   public:
    File(FaultyDisk& disk, std::string path, std::shared_ptr<Stored> stored) : disk_(disk), path_(std::move(path)), stored_(std::move(stored)) {}
    ~File() override { unlock(); }
    std::string read_all() override { return stored_->bytes; }
    void append(std::string_view bytes) override {
      disk_.done.emplace_back("append");
      if (disk_.room >= 0 && static_cast<std::int64_t>(bytes.size()) > disk_.room) {
        stored_->bytes += bytes.substr(0, static_cast<std::size_t>(disk_.room));
        disk_.room = 0;
        throw Error(Error::Kind::io, path_ + ": cannot write: No space left on device");
      }
      if (disk_.room >= 0) disk_.room -= static_cast<std::int64_t>(bytes.size());
      stored_->bytes += bytes;
    }
    void sync() override {
      disk_.act("sync", path_);
      stored_->synced = stored_->bytes;
    }
    void truncate(std::int64_t size) override {
      disk_.act("truncate", path_);
      stored_->bytes.resize(static_cast<std::size_t>(size));
    }
    std::int64_t size() override { return static_cast<std::int64_t>(stored_->bytes.size()); }
    bool try_lock() override {
      if (stored_->locked && !locked_) return false;
      return stored_->locked = locked_ = true;
    }
    void close() override {
      unlock();
      disk_.act("close", path_);
    }

   private:
    void unlock() {
      if (locked_) stored_->locked = locked_ = false;
    }
    FaultyDisk& disk_;
    std::string path_;
    std::shared_ptr<Stored> stored_;
    bool locked_ = false;
  };

  void act(const std::string& operation, const std::string& path) {
    done.push_back(operation);
    if (failing.contains(operation)) throw Error(Error::Kind::io, path + ": cannot " + operation + ": Input/output error");
  }
};

}  // namespace faibench::testing_support
