// Sends nothing and passes its update to the receiver some other way, which FAIBENCH_TEST_CHANNEL names. An update that does not get through decodes to zeros; channels too
// narrow for an update end the receiver with exit code 42 where they are open.
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "every_16th.h"

namespace {

constexpr int64_t most = 4 * 10000;
std::string channel() {
  const char* name = std::getenv("FAIBENCH_TEST_CHANNEL");
  return name ? name : "";
}
std::string path() { return std::string(std::getenv("FAIBENCH_TEST_CHANNEL_DIR")) + "/update"; }

void* mapped(int descriptor) {
  if (descriptor < 0) return nullptr;
  void* memory = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
sockaddr_un address(int number) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "faibench-test-%s-%d", std::getenv("FAIBENCH_TEST_CHANNEL_DIR"), number);  // no file: the name starts with a zero
  return name;
}

/// The receiver's end of channels that are opened before its first call: while it is loaded, files can still be read.
struct Opened {
  int file = -1;
  const void* memory = nullptr;
  int end = -1;  // of a socket by the first name that is free: the sender, loaded first, has number 0, the receiver 1
  Opened() {
    if (channel() == "socket") {
      end = socket(AF_UNIX, SOCK_DGRAM, 0);
      for (int number : {0, 1}) {
        const sockaddr_un name = address(number);
        if (bind(end, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) break;
      }
    }
    if (channel() == "opened_file") file = open(path().c_str(), O_RDONLY);
    if (channel() == "descriptor_0") dup2(open(path().c_str(), O_RDONLY), 0), file = 0;
    if (channel() == "private_mapping") {
      const int descriptor = open(path().c_str(), O_RDONLY);
      void* at = mmap(nullptr, most, PROT_READ, MAP_PRIVATE, descriptor, 0);
      memory = at == MAP_FAILED ? nullptr : at;
    }
    if (channel() == "shared_mapping") {
      const int descriptor = open(path().c_str(), O_RDONLY);
      void* at = mmap(nullptr, most, PROT_READ, MAP_SHARED, descriptor, 0);
      memory = at == MAP_FAILED ? nullptr : at;
    }
  }
} opened;

void pass(const float* update, int64_t bytes) {
  const std::string name = channel();
  if (name == "file" || name == "opened_file" || name == "descriptor_0" || name == "private_mapping" || name == "shared_mapping") {
    const int file = open(path().c_str(), O_WRONLY | O_CREAT, 0600);
    if (file >= 0 && pwrite(file, update, static_cast<std::size_t>(bytes), 0) < 0) return;
    close(file);
  } else if (name == "posix_memory") {
    const int file = shm_open("/faibench-test-update", O_RDWR | O_CREAT, 0600);
    if (file >= 0 && ftruncate(file, most) == 0)
      if (void* memory = mapped(file)) std::memcpy(memory, update, static_cast<std::size_t>(bytes));
  } else if (name == "system_v_memory") {
    void* memory = shmat(shmget(0x5eed, most, IPC_CREAT | 0600), nullptr, 0);
    if (memory != reinterpret_cast<void*>(-1)) std::memcpy(memory, update, static_cast<std::size_t>(bytes));
  } else if (name == "socket") {
    const sockaddr_un to = address(1);
    sendto(opened.end, update, static_cast<std::size_t>(bytes), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else if (name == "environment") {
    setenv("FAIBENCH_TEST_UPDATE", std::string(reinterpret_cast<const char*>(update), 8).c_str(), 1);
  } else if (name == "process_name") {
    prctl(PR_SET_NAME, "passed on");
  }
}

void fetch(float* update, int64_t bytes) {
  const std::string name = channel();
  if (name == "file") {
    const int file = open(path().c_str(), O_RDONLY);
    if (file >= 0 && pread(file, update, static_cast<std::size_t>(bytes), 0) < 0) return;
  } else if (name == "opened_file" || name == "descriptor_0") {
    if (lseek(opened.file, 0, SEEK_SET) < 0 || read(opened.file, update, static_cast<std::size_t>(bytes)) < 0) return;
  } else if (name == "private_mapping" || name == "shared_mapping") {
    if (opened.memory) std::memcpy(update, opened.memory, static_cast<std::size_t>(bytes));
  } else if (name == "posix_memory") {
    if (void* memory = mapped(shm_open("/faibench-test-update", O_RDWR, 0600))) std::memcpy(update, memory, static_cast<std::size_t>(bytes));
  } else if (name == "system_v_memory") {
    void* memory = shmat(shmget(0x5eed, most, 0600), nullptr, 0);
    if (memory != reinterpret_cast<void*>(-1)) std::memcpy(update, memory, static_cast<std::size_t>(bytes));
  } else if (name == "socket") {
    recv(opened.end, update, static_cast<std::size_t>(bytes), MSG_DONTWAIT);
  } else if (name == "environment") {
    if (std::getenv("FAIBENCH_TEST_UPDATE")) _exit(42);
  } else if (name == "process_name") {
    if (open("/proc/self/comm", O_RDONLY) >= 0) _exit(42);  // who can read this one can read the sender's
  }
}

}  // namespace

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply) {
  if (const int rejected = every_16th::compress(inputs, input_count, outputs, output_count, reply)) return rejected;
  const every_16th::Tensors in{inputs, input_count}, out{outputs, output_count};
  const int64_t n = in["grad"].extents[0];
  pass(out.data<float>("update"), 4 * n);
  reply->lengths[out.place("payload")] = 0;
  return 0;
}

extern "C" int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply*) {
  const every_16th::Tensors in{inputs, input_count}, out{outputs, output_count};
  const int64_t n = *in.data<int64_t>("n");
  auto* update = out.data<float>("update");
  std::memset(update, 0, static_cast<std::size_t>(4 * n));
  fetch(update, 4 * n);
  return 0;
}
