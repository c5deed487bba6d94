#include "judge/noise_probe.h"

namespace faibench {
namespace {

// A chain of dependent steps over every element: neither vectorised nor overlapped, so its time is the core's clock and nothing else.
void churn(View<const std::uint32_t, 1> x, View<std::uint32_t, 1> y) {
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    state = (state ^ x[i]) * 2654435761u;
    state ^= state >> 15;
    y[i] = state;
  }
}

Task make() {
  Task task;
  task.name = noise_probe_name;
  task.contract.input("x", {Dtype::u32}, {"N"}, "seeds");
  task.contract.output("y", {Dtype::u32}, {"N"}, "the chain's states");
  const Kernel kernel({bind(churn, {"x", "y"})});
  task.variants = {{"reference", kernel, ""}, {"baseline", kernel, ""}};
  const Generator generate = [](Random& random) {
    TensorMap inputs;
    random.fill_bits(inputs.add("x", Tensor(Dtype::u32, {200000})).flat<std::uint32_t>());
    return inputs;
  };
  task.workloads = {{"smoke", "200,000 dependent steps", {generate}, 5e-4}};
  task.random_case = generate;
  task.gate = exact_gate();
  task.floor = [](const TensorRefMap&) { return Floor{}; };
  return task;
}

}  // namespace

const Task& noise_probe() {
  static const Task task = make();
  return task;
}

const Task* find_judged_task(std::string_view name) { return name == noise_probe_name ? &noise_probe() : find_task(name); }

}  // namespace faibench
