// Where the tokens of a JSON text begin, found 64 bytes at a time: the first half of the cpu variant.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace faibench::compile_cache_key_canon::cpu {

/// Room for the tokens of texts of up to `capacity` bytes, and the tokens of the last one.
struct Tokens {
  std::unique_ptr<std::uint32_t[]> at;            ///< brackets, colons, commas, both quotes of each string, first bytes of numbers and words; then `size` as a sentinel
  std::unique_ptr<std::uint64_t[]> backslashes;   ///< a bit a byte of the text
  std::size_t capacity = 0, count = 0;
  bool wide = false;                              ///< some byte is above 0x7f
  void reserve(std::size_t size);
};

/// Finds the tokens of `text`, behind whose `size` bytes 64 more are spaces. False where a string does not end or holds a raw control character.
/// Bytes outside strings that are in no token of JSON are the beginning or part of a word: whoever reads words finds them.
bool find_tokens(const char* text, std::size_t size, Tokens& tokens);

}  // namespace faibench::compile_cache_key_canon::cpu
