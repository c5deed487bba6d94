// The compiler's own instrumentation, served by the emulator: kernels are compiled with -fsanitize=thread,bounds,alignment, which puts a call before every access to memory that
// another thread could see, before every index into an array of known extent, and where an object is at an address that its type forbids. The sanitizers' run-time libraries stay out: these are the functions that the calls name.
#include "emulator/access.h"

using faibench::emulator::on_access;
using faibench::emulator::on_bad_index;
using faibench::emulator::on_misaligned;

namespace {
std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
}  // namespace

#define ON_ACCESS(n)                                                                                              \
  void __tsan_read##n(void* at) { on_access({number(at), n, false}); }                                        \
  void __tsan_write##n(void* at) { on_access({number(at), n, true}); }                                        \
  void __tsan_volatile_read##n(void* at) { on_access({number(at), n, false}); }                               \
  void __tsan_volatile_write##n(void* at) { on_access({number(at), n, true}); }                               \
  void __tsan_unaligned_read##n(void* at) { on_access({.address = number(at), .bytes = n, .writes = false, .aligned = false}); } \
  void __tsan_unaligned_write##n(void* at) { on_access({.address = number(at), .bytes = n, .writes = true, .aligned = false}); }

extern "C" {
ON_ACCESS(1)
ON_ACCESS(2)
ON_ACCESS(4)
ON_ACCESS(8)
ON_ACCESS(16)
void __tsan_read_range(void* at, std::size_t bytes) { on_access({.address = number(at), .bytes = bytes, .writes = false, .aligned = false}); }
void __tsan_write_range(void* at, std::size_t bytes) { on_access({.address = number(at), .bytes = bytes, .writes = true, .aligned = false}); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __ubsan_handle_out_of_bounds(void*, void*) { on_bad_index(); }
void __ubsan_handle_out_of_bounds_abort(void*, void*) { on_bad_index(); }
void __ubsan_handle_type_mismatch_v1(void*, void* at) { on_misaligned(number(at)); }
void __ubsan_handle_type_mismatch_v1_abort(void*, void* at) { on_misaligned(number(at)); }
}
