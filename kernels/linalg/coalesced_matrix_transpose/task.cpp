// coalesced_matrix_transpose: contract, reference, cases, workloads, gate, floor.
#include "task/task.h"

#include <bit>

#include "kernels/linalg/coalesced_matrix_transpose/coalesced_matrix_transpose.h"

namespace faibench {
namespace coalesced_matrix_transpose {

void reference::transpose(View<const float, 2> x, View<float, 2> y) {
  for (std::int64_t j = 0; j < y.extent(0); ++j)
    for (std::int64_t i = 0; i < y.extent(1); ++i) y(j, i) = x(i, j);
}

namespace {

TensorMap random_bits(Random& random, std::int64_t M, std::int64_t N) {
  TensorMap inputs;
  Tensor& x = inputs.add("x", Tensor(Dtype::f32, {M, N}));
  random.fill_bits({reinterpret_cast<std::uint32_t*>(x.data()), static_cast<std::size_t>(M * N)});
  return inputs;
}

Case sized(const char* name, const char* note, std::int64_t M, std::int64_t N) {
  return {name, note, [M, N](Random& random) { return random_bits(random, M, N); }};
}

TensorMap special_values(Random&) {
  const std::uint32_t bits[] = {0x7fc00001u, 0xffc12345u, 0x7f800001u, 0x80000000u, 0x00000001u, 0x807fffffu, 0x7f800000u, 0xff800000u, 0u};
  TensorMap inputs;
  auto x = inputs.add("x", Tensor(Dtype::f32, {19, 21})).flat<float>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(bits[i % std::size(bits)]);
  return inputs;
}

std::vector<Case> cases() {
  return {
      sized("no_rows", "M = 0", 0, 7),
      sized("no_columns", "N = 0", 5, 0),
      sized("one_element", "1 x 1", 1, 1),
      sized("one_row", "a copy", 1, 1003),
      sized("one_column", "a copy", 1003, 1),
      sized("one_past_a_tile", "33 x 65", 33, 65),
      sized("both_odd", "31 x 33", 31, 33),
      sized("whole_tiles", "128 x 192", 128, 192),
      sized("one_short_of_a_tile", "127 x 191", 127, 191),
      sized("very_tall", "one grid dimension above 65535*32 on a GPU", 2100001, 3),
      sized("very_wide", "the same along N", 3, 2100001),
      {"special_values", "NaN payloads, signalling NaN, -0, subnormals, Inf", special_values},
      {"missing_x", "no input at all", [](Random&) { return TensorMap(); }},
      {"x_is_f64", "another dtype", [](Random&) { TensorMap in; in.add("x", Tensor(Dtype::f64, {2, 3})); return in; }},
      {"x_is_vector", "another rank", [](Random&) { TensorMap in; in.add("x", Tensor(Dtype::f32, {6})); return in; }},
      {"extra_tensor", "an input the contract does not know", [](Random& random) { TensorMap in = random_bits(random, 2, 2); in.add("z", Tensor(Dtype::f32, {1})); return in; }},
  };
}

Task make() {
  Task task;
  task.name = "coalesced_matrix_transpose";
  task.group = "linalg";
  task.summary = "Out-of-place transpose of a row-major f32 matrix";
  task.semantics = "y[j, i] has the bits of x[i, j]. Pure data movement: NaN payloads, signs of zero and subnormals are kept.";
  task.contract.input("x", {Dtype::f32}, {"M", "N"}, "source", "any bit pattern");
  task.contract.output("y", {Dtype::f32}, {"N", "M"}, "the transpose; separate memory");
  task.variants = {
      {"reference", Kernel({bind(reference::transpose, {"x", "y"})}), "one element after another, in the order of y"},
      {"baseline", Kernel({bind(baseline::transpose, {"x", "y"})}), "reads in order, writes with stride M"},
      {"cpu", Kernel({bind(cpu::transpose, {"x", "y"})}), "16x16 blocks in registers, whole lines streamed, blocks over threads"},
      on_device("cuda_baseline", "one thread an element, columns of y a warp"),
      on_device("cuda", "64x64 tiles through swizzled shared memory, 16 bytes an access on all sides"),
  };
  const auto workload = [](std::string name, std::string description, std::int64_t M, std::int64_t N, double seconds) {
    return Workload{std::move(name), std::move(description), {[M, N](Random& random) { return random_bits(random, M, N); }}, seconds};
  };
  task.workloads = {
      workload("smoke", "129 x 250, random bits", 129, 250, 2e-5),
      workload("standard", "8192 x 4096, random bits (NaN and Inf patterns occur)", 8192, 4096, 0.45),
      workload("gpu", "16384 x 16384, random bits", 16384, 16384, 4),
      workload("ragged", "8191 x 4097, random bits; reported, not scored", 8191, 4097, 0.4),
      workload("tall", "2097152 x 17, random bits; reported, not scored", 2097152, 17, 0.2),
      workload("wide", "17 x 2097152, random bits; reported, not scored", 17, 2097152, 0.2),
      workload("square", "4096 x 4096, random bits; reported, not scored", 4096, 4096, 0.2),
  };
  task.cases = cases();
  task.random_case = [](Random& random) {
    const std::int64_t M = random.between(0, 150), N = random.between(0, 150);
    return random_bits(random, M, N);
  };
  task.gate = exact_gate();
  task.floor = [](const TensorRefMap& inputs) { return Floor{2.0 * static_cast<double>(inputs.at("x").bytes()), 0}; };
  task.floor_text = "4*M*N bytes read + 4*M*N written, no operations";
  return task;
}

}  // namespace
}  // namespace coalesced_matrix_transpose

namespace tasks {
const Task& coalesced_matrix_transpose() {
  static const Task task = faibench::coalesced_matrix_transpose::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
