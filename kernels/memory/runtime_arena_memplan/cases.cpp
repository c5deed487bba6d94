// Fixed and random cases of runtime_arena_memplan.
#include "kernels/memory/runtime_arena_memplan/cases.h"

#include <utility>

namespace faibench::runtime_arena_memplan {
namespace {

using Values = std::vector<std::int64_t>;

TensorMap buffers(std::int64_t align, const Values& size, const Values& alloc, const Values& free) {
  TensorMap inputs;
  inputs.add("align", Tensor::scalar(align));
  for (const auto& [name, values] : {std::pair{"size", &size}, std::pair{"alloc", &alloc}, std::pair{"free", &free}})
    inputs.add(name, Tensor::of<std::int64_t>({static_cast<std::int64_t>(values->size())}, *values));
  return inputs;
}

Case fixed(const char* name, const char* note, std::int64_t align, Values size, Values alloc, Values free) {
  return {name, note, [=](Random&) { return buffers(align, size, alloc, free); }};
}

// N buffers drawn one after another by `draw(random, size, alloc, free)`.
template <class Draw>
Case drawn(const char* name, const char* note, std::int64_t align, std::int64_t N, Draw draw) {
  return {name, note, [=](Random& random) {
            Values size, alloc, free;
            for (std::int64_t i = 0; i < N; ++i) {
              std::int64_t s = 0, a = 0, f = 0;
              draw(random, i, s, a, f);
              size.push_back(s);
              alloc.push_back(a);
              free.push_back(f);
            }
            return buffers(align, size, alloc, free);
          }};
}

template <class Change>
Case changed(const char* name, const char* note, Change change) {  // a valid input with one thing wrong
  return {name, note, [=](Random&) {
            TensorMap inputs = buffers(64, {100, 0, 300}, {0, 1, 2}, {3, 2, 5});
            change(inputs);
            return inputs;
          }};
}

constexpr std::int64_t most = std::int64_t{1} << 40;
constexpr std::int64_t lowest = INT64_MIN, highest = INT64_MAX;

void add_shapes(std::vector<Case>& cases) {
  cases.push_back(fixed("no_buffer", "N = 0", 64, {}, {}, {}));
  cases.push_back(fixed("one_buffer", "N = 1", 64, {1000}, {5}, {9}));
  cases.push_back(fixed("one_buffer_without_bytes", "LB = 0, so q = 1", 64, {0}, {5}, {9}));
  cases.push_back(drawn("all_alive_at_once", "q = 1 whatever the order", 64, 300, [](Random& random, std::int64_t i, auto& s, auto& a, auto& f) {
    s = random.between(1, 5000);
    a = i % 7;
    f = 10 + i % 5;
  }));
  cases.push_back(drawn("none_alive_together", "q = 1: all at 0", 16, 300, [](Random& random, std::int64_t i, auto& s, auto& a, auto& f) {
    s = random.between(1, 5000);
    a = (i * 7) % 300;
    f = a + 1;
  }));
  cases.push_back(fixed("leading_gap", "the gap below the first live buffer is used: 180, not 240", 1, {100, 80, 60}, {0, 1, 2}, {2, 3, 4}));
  cases.push_back(fixed("back_to_back", "a buffer born where another dies may take its place", 16, {32, 32, 32, 16}, {0, 3, 5, 0}, {3, 5, 6, 6}));
  cases.push_back(fixed("identical_buffers", "do not share a place", 64, {128, 128, 128, 128}, {2, 2, 2, 2}, {3, 3, 3, 3}));
  cases.push_back(fixed("zero_bytes_between_conflicts", "0-byte buffers lie at 0 and hinder nobody", 64, {0, 64, 0, 64, 0}, {0, 0, 1, 0, 0}, {9, 9, 2, 9, 1}));
  cases.push_back(fixed("overlap_through_a_third", "0 and 2 meet only through 1 and may share", 1, {50, 20, 50}, {0, 2, 4}, {3, 5, 7}));
  cases.push_back(fixed("one_step_of_overlap", "alloc is inclusive: 0 and 1 meet in step 4", 1, {10, 10}, {0, 4}, {5, 9}));
}

void add_values(std::vector<Case>& cases) {
  cases.push_back(fixed("gap_fits_only_unaligned", "100 bytes between 64 + 1 and 256 fit from 65, not from 128 + 100", 128, {65, 256, 140, 90}, {0, 0, 3, 1}, {9, 2, 9, 6}));
  cases.push_back(drawn("sizes_off_the_alignment", "every size is one off a multiple of 256", 256, 200, [](Random& random, std::int64_t, auto& s, auto& a, auto& f) {
    s = 256 * random.between(1, 8) + random.between(-1, 1);
    a = random.below(100);
    f = a + random.between(1, 9);
  }));
  cases.push_back(drawn("alignment_of_one", "any byte will do", 1, 200, [](Random& random, std::int64_t, auto& s, auto& a, auto& f) {
    s = random.between(0, 40);
    a = random.below(60);
    f = a + random.between(1, 20);
  }));
  cases.push_back(drawn("alignment_of_2_mib", "small sizes, the largest alignment", most >> 19, 100, [](Random& random, std::int64_t, auto& s, auto& a, auto& f) {
    s = random.between(0, 5000000);
    a = random.below(60);
    f = a + random.between(1, 20);
  }));
  cases.push_back(drawn("sizes_near_2_40", "sums beyond 32 bits of units", 64, 200, [](Random& random, std::int64_t, auto& s, auto& a, auto& f) {
    s = most - random.below(100);
    a = random.below(50);
    f = a + random.between(1, 10);
  }));
  cases.push_back(drawn("sparse_times", "up to 2^40: no array by time steps", 64, 300, [](Random& random, std::int64_t i, auto& s, auto& a, auto& f) {
    s = random.between(0, 100000);
    a = i == 0 ? 0 : random.below(most - 1);
    f = i == 0 ? most : random.chance(0.5) ? std::min(most, a + random.between(1, most / 20)) : a + 1;
  }));
  cases.push_back(drawn("one_lifetime_of_all_time", "0 .. 2^40 beside short ones", 8, 150, [](Random& random, std::int64_t i, auto& s, auto& a, auto& f) {
    s = random.between(1, 1000);
    a = i == 75 ? 0 : most - 100 + random.below(90);
    f = i == 75 ? most : a + random.between(1, 10);
  }));
  cases.push_back(drawn("equal_sizes", "many buffers of few sizes", 64, 400, [](Random& random, std::int64_t, auto& s, auto& a, auto& f) {
    s = std::int64_t{4096} << random.below(3);
    a = random.below(200);
    f = a + random.between(1, 12);
  }));
  cases.push_back(drawn("born_in_reverse", "input order is not the order of time", 32, 200, [](Random& random, std::int64_t i, auto& s, auto& a, auto& f) {
    s = random.between(1, 9999);
    a = 200 - i;
    f = a + random.between(1, 15);
  }));
  cases.push_back(drawn("nested_lifetimes", "activations kept for the backward pass", 64, 200, [](Random& random, std::int64_t i, auto& s, auto& a, auto& f) {
    s = random.between(1, 99999);
    a = i;
    f = 401 - i;
  }));
  cases.push_back(drawn("long_and_short", "lifetimes of 1 to 2000 steps", 64, 500, [](Random& random, std::int64_t, auto& s, auto& a, auto& f) {
    s = random.between(1, 99999);
    a = random.below(2000);
    f = a + 1 + (random.below(2000) >> random.below(11));
  }));
}

void add_rejections(std::vector<Case>& cases) {
  const auto set_align = [](std::int64_t value) { return [=](TensorMap& in) { *reinterpret_cast<std::int64_t*>(in.at("align").data()) = value; }; };
  const auto set = [](const char* name, std::size_t i, std::int64_t value) { return [=](TensorMap& in) { in.at(name).flat<std::int64_t>()[i] = value; }; };
  cases.push_back(changed("align_zero", "bad_align", set_align(0)));
  cases.push_back(changed("align_negative", "bad_align: the top bit alone is no power of two here", set_align(lowest)));
  cases.push_back(changed("align_48", "bad_align", set_align(48)));
  cases.push_back(changed("align_2_22", "bad_align: a power of two, too large", set_align(most >> 18)));
  cases.push_back(changed("size_negative", "bad_size", set("size", 1, -1)));
  cases.push_back(changed("size_lowest", "bad_size", set("size", 0, lowest)));
  cases.push_back(changed("size_beyond_2_40", "bad_size", set("size", 2, most + 1)));
  cases.push_back(changed("size_highest", "bad_size", set("size", 2, highest)));
  cases.push_back(changed("alloc_negative", "bad_lifetime", set("alloc", 0, -1)));
  cases.push_back(changed("alloc_after_free", "bad_lifetime", set("alloc", 1, 3)));
  cases.push_back(changed("empty_lifetime", "bad_lifetime, also for 0 bytes", set("free", 1, 1)));
  cases.push_back(changed("free_beyond_2_40", "bad_lifetime", set("free", 2, most + 1)));
  cases.push_back(changed("free_lowest", "bad_lifetime", set("free", 2, lowest)));
  cases.push_back(changed("alloc_highest_free_negative", "bad_lifetime: their difference wraps around", [](TensorMap& in) {
    in.at("alloc").flat<std::int64_t>()[0] = highest;
    in.at("free").flat<std::int64_t>()[0] = -5;
  }));
  cases.push_back(changed("size_before_lifetime", "bad_size of the last buffer comes before bad_lifetime of the first", [](TensorMap& in) {
    in.at("alloc").flat<std::int64_t>()[0] = 3;
    in.at("size").flat<std::int64_t>()[2] = -7;
  }));
  cases.push_back(changed("align_before_size", "bad_align comes before bad_size", [](TensorMap& in) {
    *reinterpret_cast<std::int64_t*>(in.at("align").data()) = 3;
    in.at("size").flat<std::int64_t>()[0] = -7;
  }));
  cases.push_back(changed("no_free", "missing_tensor", [](TensorMap& in) { in.erase("free"); }));
  cases.push_back(changed("extra_tensor", "unknown_tensor", [](TensorMap& in) { in.add("name", Tensor::text("x")); }));
  cases.push_back(changed("size_is_i32", "wrong_dtype", [](TensorMap& in) {
    in.erase("size");
    in.add("size", Tensor::of<std::int32_t>({3}, {1, 2, 3}));
  }));
  cases.push_back(changed("align_is_vector", "wrong_rank", [](TensorMap& in) {
    in.erase("align");
    in.add("align", Tensor::of<std::int64_t>({1}, {64}));
  }));
  cases.push_back(changed("alloc_is_shorter", "dim_mismatch", [](TensorMap& in) {
    in.erase("alloc");
    in.add("alloc", Tensor::of<std::int64_t>({2}, {0, 1}));
  }));
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  add_shapes(all);
  add_values(all);
  add_rejections(all);
  return all;
}

TensorMap random_case(Random& random) {
  const std::int64_t N = random.below(random.chance(0.2) ? 8 : 400), align = std::int64_t{1} << random.below(22);
  const std::int64_t steps = 1 + random.below(random.chance(0.5) ? 2 * N + 1 : 30), stride = random.chance(0.3) ? most / (4 * steps) : 1;  // sparse or dense
  const std::int64_t longest = 1 + random.below(steps), largest = std::int64_t{1} << random.between(1, 40), kinds = random.chance(0.3) ? 3 : largest;
  Values size, alloc, free;
  for (std::int64_t i = 0; i < N; ++i) {
    size.push_back(random.chance(0.1) ? 0 : largest - random.below(kinds));
    alloc.push_back(random.below(steps) * stride);
    free.push_back(alloc.back() + (random.chance(0.1) ? 2 * steps : random.between(1, longest)) * stride);
  }
  return buffers(align, size, alloc, free);
}

}  // namespace faibench::runtime_arena_memplan
