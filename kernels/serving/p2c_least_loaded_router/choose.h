// Which of two replicas takes a request, without a branch.
#pragma once
#include <cstdint>
#include <type_traits>

namespace faibench::p2c_least_loaded_router::cpu {

// The selections below are conditional moves by decree: GCC 12 turns every portable way to write them into the branch that the baseline suffers
// from, mispredicted in every second request.
/// load_b < load_a ? b : a
template <class Load>
inline std::uint64_t less_loaded(std::uint64_t a, std::uint64_t b, Load load_a, const Load& load_b) {
#ifdef __x86_64__
  asm("cmp %3, %1\n\tcmova %2, %0" : "+r"(a) : "r"(load_a), "r"(b), "m"(load_b) : "cc");
  return a;
#else
  return a ^ ((a ^ b) & -static_cast<std::uint64_t>(load_b < load_a));
#endif
}

template <class Load>
struct Choice {
  std::uint64_t pick;
  Load minus_second;  ///< all ones if b was picked, else 0
};
/// The pick and what it adds to the loads.
template <class Load>
inline Choice<Load> choose(std::uint64_t a, std::uint64_t b, Load load_a, Load load_b) {
#ifdef __x86_64__
  Load minus_second;
  asm("cmp %3, %2\n\tcmovb %4, %1\n\tsbb %0, %0" : "=&r"(minus_second), "+&r"(a) : "r"(load_b), "r"(load_a), "r"(b) : "cc");
  return {a, minus_second};
#else
  const Load minus_second = -static_cast<Load>(load_b < load_a);
  return {a ^ ((a ^ b) & static_cast<std::uint64_t>(static_cast<std::make_signed_t<Load>>(minus_second))), minus_second};
#endif
}

}  // namespace faibench::p2c_least_loaded_router::cpu
