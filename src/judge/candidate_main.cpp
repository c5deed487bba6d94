#include "judge/candidate_main.h"

#include <malloc.h>
#include <omp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <string>

#include "judge/candidate_gpu.h"
#include "judge/confinement.h"
#include "judge/control_page.h"
#include "judge/device_library.h"
#include "judge/job.h"
#include "judge/noise_probe.h"
#include "judge/stream.h"
#include "judge/stream_isolation.h"
#include "judge/submission_kernel.h"
#include "task/task.h"

namespace faibench {
namespace {

template <std::size_t N>
void store(char (&field)[N], std::string_view text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(field, text.data(), n);
  field[n] = 0;
}

// Every page of the program and its libraries that is only read: file pages that a call would otherwise seem to take.
void fault_in_program_text() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long start = 0, end = 0;
    char access[5] = "";
    if (std::sscanf(line.c_str(), "%llx-%llx %4s", &start, &end, access) != 3 || line.find('/') == std::string::npos) continue;
    if (access[0] == 'r' && access[1] == '-') madvise(reinterpret_cast<void*>(start), static_cast<std::size_t>(end - start), MADV_POPULATE_READ);
  }
}

struct Session {
  ControlPage& page;
  std::byte* data;
  const Task* task;
  const Contract* contract;
  Kernel kernel;
  int default_threads;
  std::unique_ptr<CandidateGpu> gpu = nullptr;

  void load() {
    task = find_judged_task(page.task);
    if (!task) throw Error(Error::Kind::bad_input, "this program has no task '" + std::string(page.task) + "'");
    std::string variant = page.variant;
    const bool receiver = variant.starts_with(receiver_prefix) && task->stream;
    if (receiver) {
      variant.erase(0, receiver_prefix.size());
      contract = &task->stream->receiver;
    } else {
      contract = &task->contract;
    }
    if (variant.starts_with(library_prefix)) {
      confine_submission();
      if (task->stream) forbid_channels();
      kernel = load_submission(variant.substr(library_prefix.size()), receiver ? "faibench_decode" : "faibench_run");
      if (receiver && !kernel) kernel = task->stream->decoder;
      if (receiver) forbid_everything_but_memory();
      return;
    }
    const bool emulated = variant.starts_with(emulated_prefix);
    if (emulated) variant.erase(0, emulated_prefix.size());
    const Variant* found = task->find_variant(variant);
    if (!found) throw Error(Error::Kind::bad_input, task->name + " has no variant '" + variant + "'");
    if (emulated && !found->on_device) throw Error(Error::Kind::bad_input, "'" + variant + "' of " + task->name + " runs on a CPU as it is: there is nothing to emulate");
    if (emulated) {
      const DeviceLibrary& library = load_device_library(DeviceKind::emulated);
      kernel = library.emulated(device_kernel(library, *task, variant), found->on_host);
      return;
    }
    if (found->on_device && page.gpu[0]) {
      const DeviceLibrary& library = load_device_library(DeviceKind::cuda);
      const Kernel& on_device = device_kernel(library, *task, variant);
      gpu = std::make_unique<CandidateGpu>(page.gpu, data);
      kernel = gpu->call(library.emulated ? library.emulated(on_device, found->on_host) : on_device, found->on_host);
      return;
    }
    if (found->on_device && !receiver) throw Error(Error::Kind::bad_input, "'" + variant + "' of " + task->name + " runs on a GPU, and there is none here: --emulate runs it on a CPU, without timing it");
    kernel = !receiver ? found->kernel : found->decoder ? found->decoder : task->stream->decoder;
  }

  TensorRef tensor(const ControlPage::Slot& slot) const {
    return {static_cast<Dtype>(slot.dtype), Shape(slot.extents, slot.extents + slot.rank), data + slot.offset};
  }

  void call() {
    omp_set_num_threads(page.threads > 0 ? page.threads : default_threads);
    TensorRefMap inputs, outputs;
    for (std::uint32_t i = 0; i < page.inputs; ++i) inputs.add(page.slots[i].name, tensor(page.slots[i]));
    for (std::uint32_t i = 0; i < page.outputs; ++i) outputs.add(page.slots[page.inputs + i].name, tensor(page.slots[page.inputs + i]));
    if (const Rejected rejected = call_kernel(*contract, kernel, inputs, outputs)) {
      store(page.code, rejected->code);
      store(page.tensor, rejected->tensor);
      store(page.message, rejected->message);
      page.index = rejected->index;
      page.status = ControlPage::Status::rejected;
      return;
    }
    std::size_t i = 0;
    for (const auto& [name, output] : outputs) page.lengths[i++] = output.rank() > 0 ? output.shape[0] : -1;
    page.status = ControlPage::Status::ok;
  }

  // For a process whose memory will be measured, see Candidate::settle().
  void settle() {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // a huge page for a small block would count
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);  // and stays there: malloc would raise it with each block freed, and keep later ones
#pragma omp parallel
    { omp_get_thread_num(); }
    fault_in_program_text();
  }

  void answer() {
    try {
      switch (page.command) {
        case ControlPage::Command::load: load(); break;
        case ControlPage::Command::call: call(); return;
        case ControlPage::Command::touch:
          madvise(data, static_cast<std::size_t>(page.touch_bytes), MADV_POPULATE_WRITE);
          if (gpu) gpu->follow(page);
          break;
        case ControlPage::Command::settle: settle(); break;
        case ControlPage::Command::none: break;
      }
      page.status = ControlPage::Status::ok;
    } catch (const std::bad_alloc&) {
      page.status = ControlPage::Status::out_of_memory;
    } catch (const KernelFault& e) {
      store(page.code, e.fault);
      store(page.message, e.what());
      page.status = ControlPage::Status::failed;
    } catch (const std::exception& e) {
      store(page.message, e.what());
      page.status = ControlPage::Status::failed;
    }
  }
};

}  // namespace

int candidate_main() {
  void* mapping = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena_descriptor, 0);
  if (mapping == MAP_FAILED) return 1;
  auto* bytes = static_cast<std::byte*>(mapping);
  Session session{*reinterpret_cast<ControlPage*>(bytes), bytes + control_bytes, nullptr, nullptr, {}, omp_get_max_threads()};
  if (session.page.version != ControlPage::version_now) return 1;
  for (;;) {
    while (session.page.turn.load(std::memory_order_acquire) != ControlPage::candidate_turn) wait_while(session.page.turn, ControlPage::judge_turn);
    session.answer();
    session.page.turn.store(ControlPage::judge_turn, std::memory_order_release);
    wake(session.page.turn);
  }
}

}  // namespace faibench
