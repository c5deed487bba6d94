#include <functional>
#include <map>
#include <numeric>

#include "kernels/execution_harness.h"

namespace faibench::testing_support {
namespace {

const Task& task() { return *find_task("device_mesh_group_planner"); }

class EachVariant : public testing::TestWithParam<const char*> {};

TEST_P(EachVariant, is_right_on_every_case) { check_all_cases(task(), GetParam()); }
TEST_P(EachVariant, is_right_on_random_cases) { check_random_cases(task(), GetParam(), 100); }
TEST_P(EachVariant, is_right_on_the_case_files) { check_case_files(task(), GetParam()); }

// What MPI_Comm_split gives with color = index of the line, key = coordinate: every rank asks for itself alone.
TEST_P(EachVariant, agrees_with_a_split_by_line_and_coordinate) {
  const std::vector<std::int64_t> shape = {3, 4, 2};
  const std::int64_t ranks = 24, K = 3;
  Random random(7);
  const std::vector<std::int64_t> ids = random.permutation(ranks);
  for (std::int64_t a = 0, stride = ranks; a < K; ++a) {
    const std::int64_t size = shape[static_cast<std::size_t>(a)];
    stride /= size;
    std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> groups;  // color, key, id
    const auto color = [&](std::int64_t p) { return p / stride / size * stride + p % stride; };
    for (std::int64_t p = 0; p < ranks; ++p) groups[color(p)][p / stride % size] = ids[static_cast<std::size_t>(p)];
    for (std::int64_t p = 0; p < ranks; ++p) {
      TensorMap inputs;
      inputs.add("mesh_shape", Tensor::of({K}, shape));
      inputs.add("mesh_ids", Tensor::of({ranks}, ids));
      inputs.add("devices", Tensor::of({1}, std::vector<std::int64_t>{ids[static_cast<std::size_t>(p)]}));
      const TensorMap outputs = run_kernel(task().contract, variant_of(task(), GetParam()).kernel, refs(inputs));
      const auto offsets = outputs.at("member_offsets").flat<std::int64_t>();
      const auto members = outputs.at("members").flat<std::int64_t>().subspan(static_cast<std::size_t>(offsets[static_cast<std::size_t>(a)]), static_cast<std::size_t>(size));
      std::vector<std::int64_t> wanted;
      for (const auto& [key, id] : groups[color(p)]) wanted.push_back(id);
      EXPECT_EQ(std::vector<std::int64_t>(members.begin(), members.end()), wanted) << "axis " << a << " position " << p;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(DeviceMeshGroupPlanner, EachVariant, testing::Values("reference", "baseline", "cpu"));

// Whatever the ids look like, few devices asked for or many: the answer, or the rejection, is the reference's.
TEST(DeviceMeshGroupPlanner, finds_devices_among_ids_of_every_kind) {
  const std::int64_t N = 700;
  Random random(11);
  const auto as_they_are = [](std::int64_t v) { return v; };
  const auto sparse = [](std::int64_t v) { return (v << 50) + 3; };
  for (const bool permuted : {false, true})
    for (const auto& spread : std::vector<std::function<std::int64_t(std::int64_t)>>{as_they_are, [](std::int64_t v) { return 3 * v + 1; }, sparse})
      for (const bool twice : {false, true})
        for (const std::int64_t asked : {1, 3, 300}) {
          std::vector<std::int64_t> ids = permuted ? random.permutation(N) : std::vector<std::int64_t>(static_cast<std::size_t>(N));
          if (!permuted) std::iota(ids.begin(), ids.end(), 0);
          for (auto& id : ids) id = spread(id);
          if (twice) ids[650] = ids[40];
          for (const bool unknown : {false, true}) {
            std::vector<std::int64_t> devices;
            for (std::int64_t q = 0; q < asked; ++q) devices.push_back(ids[static_cast<std::size_t>((q * 331 + 699) % N)]);
            if (unknown) devices.back() = spread(N + 5);
            TensorMap inputs;
            inputs.add("mesh_shape", Tensor::of({3}, std::vector<std::int64_t>{7, 10, 10}));
            inputs.add("mesh_ids", Tensor::of({N}, ids));
            inputs.add("devices", Tensor::of({asked}, devices));
            check_inputs(task(), variant_of(task(), "cpu"), inputs);
          }
        }
}

TEST(DeviceMeshGroupPlanner, is_right_on_any_number_of_threads) { check_on_threads(task()); }

TEST(DeviceMeshGroupPlanner, is_right_on_every_instruction_set) { check_on_instruction_sets(task()); }

}  // namespace
}  // namespace faibench::testing_support
