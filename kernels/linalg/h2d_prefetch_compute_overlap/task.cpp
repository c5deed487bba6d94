// h2d_prefetch_compute_overlap: contract, variants, floor. The gate is in gate.cpp, cases and workloads are in cases.cpp.
#include "task/task.h"

#include "kernels/linalg/h2d_prefetch_compute_overlap/cases.h"
#include "kernels/linalg/h2d_prefetch_compute_overlap/gate.h"
#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"

namespace faibench {
namespace h2d_prefetch_compute_overlap {
namespace {

Rejected bad_rounds(const TensorRefMap& inputs) {
  const std::int32_t rounds = inputs.at("rounds").scalar<std::int32_t>();
  if (rounds >= 0 && rounds <= 4096) return std::nullopt;
  return reject("bad_rounds", "rounds", -1, std::to_string(rounds), "not in 0 .. 4096");
}

Task make() {
  Task task;
  task.name = "h2d_prefetch_compute_overlap";
  task.group = "linalg";
  task.summary = "Row chunks in host memory, moved to the device and run through a map while the next are on their way";
  task.semantics =
      "Row h of chunk i, column c: v = scale[i]*data[h,c] in f32; `rounds` times v = silu(gain[c]*v + bias[c]), silu(z) = z/(1+exp(-z)), 0 for large negative z and z for large positive; out[h,c] = v. "
      "NaN stays in its element. `data` lies in host memory and changes between calls; `out` is complete and visible to any stream and the host when the call returns.";
  task.contract.input("data", {Dtype::f32}, {"H", "D"}, "rows of all chunks, one after another, in host memory", "any f32");
  task.contract.input("offsets", {Dtype::i64}, {"n+1"}, "chunk i is rows offsets[i] .. offsets[i+1]-1", "0 first, not decreasing, H last").last_offset = Extent("H");
  task.contract.input("scale", {Dtype::f32}, {"n"}, "a factor a chunk", "any f32");
  task.contract.input("gain", {Dtype::f32}, {"D"}, "a column's gain", "any f32");
  task.contract.input("bias", {Dtype::f32}, {"D"}, "a column's bias", "any f32");
  task.contract.input("rounds", {Dtype::i32}, {}, "how often the map is applied", "0 .. 4096");
  task.contract.output("out", {Dtype::f32}, {"H", "D"}, "chunk results in the order of the chunks");
  task.contract.rule("bad_rounds", "rounds < 0 or rounds > 4096", CheckedBy::runner, bad_rounds);
  const std::vector<std::string> names = {"data", "offsets", "scale", "gain", "bias", "rounds", "out"};
  task.variants = {
      {"reference", Kernel({bind(reference::streamed_chunk_apply, names)}), "one element after another, in f64"},
      {"baseline", Kernel({bind(baseline::streamed_chunk_apply, names)}), "a staging buffer a chunk, a pass for every round, one thread"},
      {"cpu", Kernel({bind(cpu::streamed_chunk_apply, names)}), "one fused pass, all rounds in registers with a vector exp, equal pieces over threads"},
      on_device("cuda_baseline", "copy, kernel, copy of one chunk after another on one stream, a synchronisation after each", {"data"}),
      on_device("cuda", "pieces copied straight into `out`, computed in place on two streams while the next are copied", {"data"}),
  };
  task.workloads = workloads();
  task.cases = cases();
  task.random_case = random_case;
  task.gate = gate();
  task.floor = [](const TensorRefMap& inputs) {
    const double count = static_cast<double>(inputs.at("data").size());
    return Floor{8 * count, 12 * count * inputs.at("rounds").scalar<std::int32_t>()};
  };
  task.floor_text = "4*H*D bytes read + 4*H*D written, 12 operations an element and round";
  return task;
}

}  // namespace
}  // namespace h2d_prefetch_compute_overlap

namespace tasks {
const Task& h2d_prefetch_compute_overlap() {
  static const Task task = faibench::h2d_prefetch_compute_overlap::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
