// int4_int8_blocked_dot: contract, reference, cases, workloads, gate, floor.
#include "task/task.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/linalg/int4_int8_blocked_dot/int4_int8_blocked_dot.h"

namespace faibench {
namespace int4_int8_blocked_dot {

// Rules 1 and 2 in 64 bits.
void reference::blocked_dot(View<const std::uint8_t, 3> a_q, View<const std::int8_t, 2> a_coef, View<const std::uint32_t, 2> a_sign, View<const std::int8_t, 2> b_q,
                            View<const std::int16_t, 1> b_coef, View<const std::uint32_t, 1> b_sign, View<std::int64_t, 1> dot) {
  const auto s = [](std::uint32_t signs, std::int64_t j) { return std::int64_t{(signs >> j & 1) != 0 ? -1 : 1}; };
  for (std::int64_t r = 0; r < dot.extent(0); ++r) {
    std::uint64_t total = 0;
    for (std::int64_t b = 0; b < b_q.extent(0); ++b) {
      std::int64_t block = 0;
      for (std::int64_t j = 0; j < 32; ++j) {
        const std::int64_t nibble = j < 16 ? a_q(r, b, j) & 15 : a_q(r, b, j - 16) >> 4;
        block += s(a_sign(r, b), j) * (nibble - 8) * s(b_sign[b], j) * b_q(b, j);
      }
      total += static_cast<std::uint64_t>(std::int64_t{a_coef(r, b)} * b_coef[b] * block);
    }
    dot[r] = static_cast<std::int64_t>(total);
  }
}

namespace {

TensorMap zeros(std::int64_t R, std::int64_t nb) {
  TensorMap in;
  in.add("a_q", Tensor(Dtype::u8, {R, nb, 16}));
  in.add("a_coef", Tensor(Dtype::i8, {R, nb}));
  in.add("a_sign", Tensor(Dtype::u32, {R, nb}));
  in.add("b_q", Tensor(Dtype::i8, {nb, 32}));
  in.add("b_coef", Tensor(Dtype::i16, {nb}));
  in.add("b_sign", Tensor(Dtype::u32, {nb}));
  return in;
}

void fill_bits(Random& random, Tensor& tensor) {
  const std::int64_t words = tensor.bytes() / 4;
  random.fill_bits({reinterpret_cast<std::uint32_t*>(tensor.data()), static_cast<std::size_t>(words)});
  for (std::int64_t i = words * 4; i < tensor.bytes(); ++i) tensor.data()[i] = static_cast<std::byte>(random.u32());
}

/// Every field uniform over its whole range.
TensorMap uniform(Random& random, std::int64_t R, std::int64_t nb) {
  TensorMap in = zeros(R, nb);
  for (auto& [name, tensor] : in) fill_bits(random, tensor);
  return in;
}

/// The values of the standard workload: b as an activation is, b_coef in +-4096.
TensorMap activation(Random& random, std::int64_t R, std::int64_t nb) {
  TensorMap in = uniform(random, R, nb);
  std::vector<float> normal(static_cast<std::size_t>(nb) * 32);
  random.fill_normal(normal, 0, 32);
  std::ranges::transform(normal, in.at("b_q").flat<std::int8_t>().begin(), [](float x) { return static_cast<std::int8_t>(std::clamp(std::nearbyint(x), -128.0f, 127.0f)); });
  for (std::int16_t& coef : in.at("b_coef").flat<std::int16_t>()) coef = static_cast<std::int16_t>(random.between(-4096, 4096));
  return in;
}

template <class T>
void fill(TensorMap& in, const char* name, T value) { std::ranges::fill(in.at(name).flat<T>(), value); }

Case sized(const char* name, const char* note, std::int64_t R, std::int64_t nb) {
  return {name, note, [R, nb](Random& random) { return uniform(random, R, nb); }};
}

/// All fields random but those that `change` sets.
template <class Change>
Case changed(const char* name, const char* note, std::int64_t R, std::int64_t nb, Change change) {
  return {name, note, [R, nb, change](Random& random) {
            TensorMap in = uniform(random, R, nb);
            change(in, random);
            return in;
          }};
}

/// Every value as large as it gets: nibble 0 is -8. `a_signs` and `b_signs` say which way.
Case extreme(const char* name, const char* note, std::int64_t R, std::int64_t nb, std::uint32_t a_signs, std::uint32_t b_signs, std::int8_t a_coef) {
  return changed(name, note, R, nb, [=](TensorMap& in, Random&) {
    fill<std::uint8_t>(in, "a_q", 0);
    fill<std::int8_t>(in, "a_coef", a_coef);
    fill<std::uint32_t>(in, "a_sign", a_signs);
    fill<std::int8_t>(in, "b_q", -128);
    fill<std::int16_t>(in, "b_coef", -32768);
    fill<std::uint32_t>(in, "b_sign", b_signs);
  });
}

void cycle_signs(TensorMap& in, const char* name, std::size_t from) {
  constexpr std::uint32_t masks[] = {0xFFFFFFFFu, 0x80000000u, 0x00010000u, 0x00000001u, 0x00008000u, 0u, 0x0000FFFFu};
  for (std::uint32_t& sign : in.at(name).flat<std::uint32_t>()) sign = masks[from++ % std::size(masks)];
}

/// Block b + nb/2 repeats block b with the opposite coefficient, but for what `rest` adds to one block.
void cancel(TensorMap& in, std::int64_t R, std::int64_t nb, std::int8_t rest) {
  const std::int64_t half = nb / 2;
  const auto repeat = [&](const char* name, std::int64_t rows, std::int64_t bytes) {
    std::byte* const data = in.at(name).data();
    for (std::int64_t r = 0; r < rows; ++r) std::memcpy(data + (r * nb + half) * bytes, data + r * nb * bytes, static_cast<std::size_t>(half * bytes));
  };
  repeat("a_q", R, 16);
  repeat("a_coef", R, 1);
  repeat("a_sign", R, 4);
  repeat("b_q", 1, 32);
  repeat("b_sign", 1, 4);
  const auto coef = in.at("b_coef").flat<std::int16_t>();
  for (std::int64_t b = 0; b < half; ++b) {
    if (coef[static_cast<std::size_t>(b)] == -32768) coef[static_cast<std::size_t>(b)] = 32767;
    coef[static_cast<std::size_t>(half + b)] = static_cast<std::int16_t>(-coef[static_cast<std::size_t>(b)]);
  }
  coef[0] = static_cast<std::int16_t>(coef[0] == 32767 ? 0 : coef[0] + rest);
}

std::vector<Case> cases() {
  return {
      sized("no_rows", "R = 0: an empty dot", 0, 5),
      sized("no_blocks", "nb = 0: zeros", 7, 0),
      sized("nothing", "R = 0 and nb = 0", 0, 0),
      sized("one_block", "R = nb = 1", 1, 1),
      sized("one_row_of_17", "one past the unrolling of 16", 1, 17),
      sized("rows_of_1", "nb = 1", 37, 1),
      sized("rows_of_2", "nb = 2", 5, 2),
      sized("rows_of_3", "nb odd", 9, 3),
      sized("rows_of_7", "no multiple of 2, 4, 8", 6, 7),
      sized("rows_of_8", "nb = 8", 3, 8),
      sized("rows_of_15", "one short of 16", 33, 15),
      sized("rows_of_16", "nb = 16", 4, 16),
      sized("rows_of_23", "8 + 15", 5, 23),
      sized("rows_of_257", "one past a packed piece", 11, 257),
      sized("one_long_stream", "R = 1 and nb large: threads share the row", 1, 10007),
      sized("few_long_rows", "fewer rows than a thread would want", 3, 4099),
      sized("many_rows", "R odd and large", 1021, 19),
      changed("minus_128_negated", "b_q = -128 with its sign bit set is +128", 5, 18, [](TensorMap& in, Random&) { fill<std::int8_t>(in, "b_q", -128); fill<std::uint32_t>(in, "b_sign", ~0u); }),
      changed("minus_128_with_a_negated", "b_q = -128, sign bits of a alone", 5, 18,
              [](TensorMap& in, Random&) { fill<std::int8_t>(in, "b_q", -128); fill<std::uint32_t>(in, "a_sign", ~0u); fill<std::uint32_t>(in, "b_sign", 0); }),
      changed("minus_8_negated", "nibble 0 with sign bit set is +8", 4, 9, [](TensorMap& in, Random&) { fill<std::uint8_t>(in, "a_q", 0); fill<std::uint32_t>(in, "a_sign", ~0u); }),
      changed("nibble_8_is_zero", "with either sign", 4, 9, [](TensorMap& in, Random&) { fill<std::uint8_t>(in, "a_q", 0x88); }),
      changed("nibble_15", "the largest value", 4, 9, [](TensorMap& in, Random&) { fill<std::uint8_t>(in, "a_q", 0xFF); }),
      extreme("all_extremes", "a block term of 2^37: an i32 accumulator wraps", 3, 21, 0, 0, -128),
      extreme("all_extremes_negated", "-2^15 a block, sign bits of a", 3, 21, ~0u, 0, -128),
      extreme("all_extremes_both_signs", "both sign bits set: they cancel", 3, 21, ~0u, ~0u, -128),
      extreme("all_extremes_positive", "b negated, a_coef 127", 2, 40, 0, ~0u, 127),
      extreme("beyond_2_53", "2^17 blocks of 2^37 - 2^30: no double holds the sum", 1, 1 << 17, 0, 0, 127),
      changed("equal_signs", "a_sign = b_sign: the signs cancel everywhere", 4, 33,
              [](TensorMap& in, Random&) {
                const auto a = in.at("a_sign").view<std::uint32_t, 2>();
                for (std::int64_t r = 0; r < 4; ++r)
                  for (std::int64_t b = 0; b < 33; ++b) a(r, b) = in.at("b_sign").flat<std::uint32_t>()[static_cast<std::size_t>(b)];
              }),
      changed("single_sign_bits", "0xFFFFFFFF, 0x80000000, 0x00010000 (element 16: the high half of byte 0), 0x00000001, ...", 14, 7, [](TensorMap& in, Random&) { cycle_signs(in, "a_sign", 0); cycle_signs(in, "b_sign", 3); }),
      changed("signs_of_a_alone", "the same masks", 14, 7, [](TensorMap& in, Random&) { cycle_signs(in, "a_sign", 0); fill<std::uint32_t>(in, "b_sign", 0); }),
      changed("signs_of_b_alone", "the same masks", 3, 14, [](TensorMap& in, Random&) { cycle_signs(in, "b_sign", 0); fill<std::uint32_t>(in, "a_sign", 0); }),
      changed("one_element_of_b", "the order of the nibbles: element j is a low half, j + 16 the high half of the same byte", 8, 64,
              [](TensorMap& in, Random&) {
                const auto q = in.at("b_q").view<std::int8_t, 2>();
                for (std::int64_t b = 0; b < 64; ++b)
                  for (std::int64_t j = 0; j < 32; ++j) q(b, j) = j == b % 32 ? static_cast<std::int8_t>(b - 64) : std::int8_t{0};
              }),
      changed("cancels_to_zero", "every term has its opposite", 3, 50, [](TensorMap& in, Random&) { cancel(in, 3, 50, 0); }),
      changed("cancels_to_little", "large terms, small sums", 3, 50, [](TensorMap& in, Random&) { cancel(in, 3, 50, 1); }),
      changed("coefficients_of_0", "a block vanishes, whatever it holds", 5, 20,
              [](TensorMap& in, Random& random) {
                for (std::int8_t& coef : in.at("a_coef").flat<std::int8_t>()) coef = random.chance(0.5) ? std::int8_t{0} : coef;
                for (std::int16_t& coef : in.at("b_coef").flat<std::int16_t>()) coef = random.chance(0.3) ? std::int16_t{0} : coef;
              }),
      changed("missing_b_sign", "five inputs", 2, 3, [](TensorMap& in, Random&) { in.erase("b_sign"); }),
      changed("extra_tensor", "an input the contract does not know", 2, 3, [](TensorMap& in, Random&) { in.add("scale", Tensor(Dtype::f32, {})); }),
      changed("b_q_is_u8", "another dtype", 2, 3, [](TensorMap& in, Random&) { in.at("b_q") = Tensor(Dtype::u8, {3, 32}); }),
      changed("a_sign_is_i32", "another dtype", 2, 3, [](TensorMap& in, Random&) { in.at("a_sign") = Tensor(Dtype::i32, {2, 3}); }),
      changed("b_coef_is_i8", "another dtype", 2, 3, [](TensorMap& in, Random&) { in.at("b_coef") = Tensor(Dtype::i8, {3}); }),
      changed("a_q_is_flat", "another rank", 2, 3, [](TensorMap& in, Random&) { in.at("a_q") = Tensor(Dtype::u8, {2, 48}); }),
      changed("blocks_of_31", "the last dimension of b_q is no 32", 2, 3, [](TensorMap& in, Random&) { in.at("b_q") = Tensor(Dtype::i8, {3, 31}); }),
      changed("blocks_of_15_bytes", "the last dimension of a_q is no 16", 2, 3, [](TensorMap& in, Random&) { in.at("a_q") = Tensor(Dtype::u8, {2, 3, 15}); }),
      changed("streams_of_two_lengths", "b has one block more", 2, 3, [](TensorMap& in, Random&) { in.at("b_coef") = Tensor(Dtype::i16, {4}); }),
      changed("rows_disagree", "a_coef has another R", 2, 3, [](TensorMap& in, Random&) { in.at("a_coef") = Tensor(Dtype::i8, {3, 3}); }),
  };
}

Task make() {
  Task task;
  task.name = "int4_int8_blocked_dot";
  task.group = "linalg";
  task.summary = "Integer inner products of block-encoded 4-bit rows with one block-encoded 8-bit stream";
  task.semantics =
      "dot[r] = sum over blocks b of a_coef[r,b] * b_coef[b] * sum over j < 32 of +-(nibble j of a_q[r,b] - 8) * b_q[b,j], negated where bit j of a_sign[r,b] and b_sign[b] differ; "
      "nibble j is the low half of byte j, nibble j + 16 its high half. In the integers, modulo 2^64.";
  Contract& c = task.contract;
  c.input("a_q", {Dtype::u8}, {"R", "nb", "16"}, "32 nibbles a block, value nibble - 8: byte j holds element j in its low half, element j + 16 in its high half", "any");
  c.input("a_coef", {Dtype::i8}, {"R", "nb"}, "integer coefficient of the block", "any");
  c.input("a_sign", {Dtype::u32}, {"R", "nb"}, "bit j set: element j of the block is negated", "any");
  c.input("b_q", {Dtype::i8}, {"nb", "32"}, "the activation block", "any");
  c.input("b_coef", {Dtype::i16}, {"nb"}, "integer coefficient of the block", "any");
  c.input("b_sign", {Dtype::u32}, {"nb"}, "bit j set: element j of the block is negated", "any");
  c.output("dot", {Dtype::i64}, {"R"}, "one inner product a row");
  const std::vector<std::string> names = {"a_q", "a_coef", "a_sign", "b_q", "b_coef", "b_sign", "dot"};
  task.variants = {
      {"reference", Kernel({bind(reference::blocked_dot, names)}), "the definition in 64-bit integers"},
      {"baseline", Kernel({bind(baseline::blocked_dot, names)}), "element by element, an i32 sum a block"},
      {"cpu", Kernel({bind(cpu::blocked_dot, names)}), "joint sign on the unsigned nibble, 8-bit dot products (VNNI or AVX2), block sums transposed together, rows over threads"},
  };
  const auto workload = [](std::string name, std::string description, std::int64_t R, std::int64_t nb, double seconds) {
    return Workload{std::move(name), std::move(description), {[R, nb](Random& random) { return activation(random, R, nb); }}, seconds};
  };
  task.workloads = {
      {"smoke", "33 rows of 13 blocks, all fields uniform over their whole range", {[](Random& random) { return uniform(random, 33, 13); }}, 3e-5},
      workload("standard", "131072 rows of 128 blocks: a_q, a_coef, signs uniform; b_q rounded normal(0, 32); b_coef uniform [-4096, 4096]", 131072, 128, 0.9),
      workload("stream", "one row of 2^20 blocks, values as in standard; reported, not scored", 1, 1 << 20, 0.06),
      workload("in_cache", "4096 rows of 128 blocks, values as in standard; reported, not scored", 4096, 128, 0.03),
      workload("projection", "11008 rows of 128 blocks, values as in standard; reported, not scored", 11008, 128, 0.08),
  };
  task.cases = cases();
  task.random_case = [](Random& random) {
    const std::int64_t R = random.chance(0.2) ? random.between(30, 200) : random.between(0, 20), nb = random.chance(0.1) ? random.between(100, 700) : random.between(0, 40);
    return random.chance(0.3) ? activation(random, R, nb) : uniform(random, R, nb);
  };
  task.gate = exact_gate();
  task.floor = [](const TensorRefMap& inputs) {
    const double R = static_cast<double>(inputs.at("a_coef").shape[0]), nb = static_cast<double>(inputs.at("b_coef").size());
    return Floor{21 * R * nb + 38 * nb + 8 * R, 0};
  };
  task.floor_text = "21*R*nb bytes of a + 38*nb of b + 8*R written; the 32 multiply-adds a block are of 8 bits, for which no peak is measured";
  return task;
}

}  // namespace
}  // namespace int4_int8_blocked_dot

namespace tasks {
const Task& int4_int8_blocked_dot() {
  static const Task task = faibench::int4_int8_blocked_dot::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
