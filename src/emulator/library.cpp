// The entry of libfaibench_emulated.so.
#include "emulator/emulated_call.h"
#include "task/device_library.h"

extern "C" __attribute__((visibility("default"))) const faibench::DeviceLibrary* faibench_device_library() {
  static const faibench::DeviceLibrary library{faibench::DeviceLibrary::version_now, faibench::all_device_tasks(), [](void*) {}, faibench::emulator::emulated_call};
  return &library;
}
