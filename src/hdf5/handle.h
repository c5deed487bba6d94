// Owner of one C handle, and of HDF5's in particular.
#pragma once
#include <hdf5.h>

#include <utility>

namespace faibench::hdf5 {

/// Sole owner of one C handle: closed once, moved, never copied. `Kind` gives the raw type, its "none" and how to close it.
template <class Kind>
class Handle {
 public:
  using Raw = typename Kind::Raw;
  explicit Handle(Raw raw = Kind::none()) noexcept : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Handle() { reset(); }
  [[nodiscard]] Raw get() const noexcept { return raw_; }
  [[nodiscard]] Raw release() noexcept { return std::exchange(raw_, Kind::none()); }
  void reset(Raw raw = Kind::none()) noexcept {
    if (Raw old = std::exchange(raw_, raw); old != Kind::none()) Kind::close(old);
  }

 private:
  Raw raw_;
};

/// H5Idec_ref closes files, datasets, spaces and types alike.
struct H5Id {
  using Raw = hid_t;
  static Raw none() { return H5I_INVALID_HID; }
  static void close(Raw id) noexcept { H5Idec_ref(id); }
};
using Id = Handle<H5Id>;

}  // namespace faibench::hdf5
