#include "tensor/dtype.h"

#include <array>

namespace faibench {
namespace {
struct Fact {
  std::string_view name;
  std::int64_t size;
};
constexpr std::array<Fact, dtype_count> facts = {{{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"i8", 1}, {"u8", 1},
                                                  {"i16", 2}, {"i32", 4}, {"u32", 4}, {"i64", 8}, {"u64", 8}, {"bool", 1}}};
}  // namespace

std::int64_t size_of(Dtype dtype) { return facts[static_cast<std::size_t>(dtype)].size; }
std::string_view name_of(Dtype dtype) { return facts[static_cast<std::size_t>(dtype)].name; }

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < facts.size(); ++i)
    if (facts[i].name == name) return static_cast<Dtype>(i);
  return std::nullopt;
}

bool is_float(Dtype dtype) { return dtype <= Dtype::f64; }

}  // namespace faibench
