// No tree and no text of the canonical form. A document is copied to where spaces may follow it, its tokens are found with SIMD (tokens.cpp), and one walk over
// the tokens checks grammar and fields and writes each value in a compact canonical code. Where order must not count (objects, flags) each member's code is
// hashed (XXH3, 128 bits) and the hashes are summed modulo 2^128; known fields have slots of their own, left zero for defaults. The digest is the hash of the slots.
// Bound: tokens are found at 2-3 GB/s a core, a sixth of the time; the walk over some 250 tokens in 900 bytes takes the rest, 8 ns a token.
// Documents (of up to 4 GB each) go over the threads.
// Tried and lost: digits of numbers 8 at a time without branches (no gain). Not tried: memory of equal texts, since request ids make nearly all texts unique.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/compiler/compile_cache_key_canon/compile_cache_key_canon.h"
#include "kernels/compiler/compile_cache_key_canon/tokens.h"

namespace faibench::compile_cache_key_canon::cpu {
namespace {

using Sum = unsigned __int128;

Sum hash(const void* data, std::size_t size) {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return Sum{h.high64} << 64 | h.low64;
}

std::uint64_t load64(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

/// Text after unescaping. At least 8 bytes may be read from `data`, and 16 behind its end.
struct Text {
  const char* data = nullptr;
  std::uint32_t size = 0;
  template <std::size_t N>
  [[nodiscard]] bool is(const char (&word)[N]) const { return size == N - 1 && std::memcmp(data, word, N - 1) == 0; }
  template <std::size_t N>
  [[nodiscard]] bool begins(const char (&word)[N]) const { return size >= N - 1 && std::memcmp(data, word, N - 1) == 0; }
  /// The first 8 bytes, zeros behind the end.
  [[nodiscard]] std::uint64_t head() const {
    const std::uint64_t word = load64(data);
    return size >= 8 ? word : word & ((std::uint64_t{1} << (8 * size)) - 1);
  }
  [[nodiscard]] std::string_view view() const { return {data, size}; }
};

/// A word of up to 8 bytes as head() gives it.
constexpr std::uint64_t word(std::string_view text) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  return bits;
}

struct Key {
  std::uint64_t head;
  Text text;
  friend bool operator==(const Key& a, const Key& b) {
    return a.head == b.head && a.text.size == b.text.size && (a.text.size <= 8 || std::memcmp(a.text.data, b.text.data, a.text.size) == 0);
  }
  friend bool operator<(const Key& a, const Key& b) {
    if (a.head != b.head) return a.head < b.head;
    return a.text.view() < b.text.view();
  }
};

/// (-1)^negative * mantissa * 10^exponent; the mantissa does not end in 0. Where that has more than 19 digits: `digits`, and `mantissa` is not used.
struct Number {
  bool negative = false;
  std::uint64_t mantissa = 0;
  std::int32_t exponent = 0;
  std::uint8_t digit_count = 0;  ///< of `digits`; 0: not used
  std::array<char, 64> digits;
};

struct Flag {
  Key name;
  enum class Setting : std::uint8_t { no, yes, text } setting;
  Text text;
};

constexpr std::array<bool, 256> make_table(std::string_view members) {
  std::array<bool, 256> table{};
  for (const char c : members) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr std::array<bool, 256> ends_word = make_table(" \t\n\r{}[]:,\"");
constexpr std::array<bool, 256> in_symbol = make_table("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
constexpr std::array<bool, 256> in_flag = make_table("abcdefghijklmnopqrstuvwxyz0123456789-");
constexpr std::array<std::uint8_t, 256> hex_value = [] {
  std::array<std::uint8_t, 256> table{};
  for (auto& value : table) value = 0xff;
  for (int i = 0; i < 16; ++i) table[static_cast<unsigned char>("0123456789abcdef"[i])] = table[static_cast<unsigned char>("0123456789ABCDEF"[i])] = static_cast<std::uint8_t>(i);
  return table;
}();

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// For texts that have bytes above 0x7f somewhere.
bool valid_utf8(const char* text, std::size_t size) {
  const auto* p = reinterpret_cast<const unsigned char*>(text);
  const auto* const end = p + size;  // spaces follow
  const auto more = [](unsigned char c) { return (c & 0xc0) == 0x80; };
  while (p < end) {
    if ((load64(reinterpret_cast<const char*>(p)) & 0x8080808080808080u) == 0) p += 8;
    else if (p[0] < 0x80) p += 1;
    else if (p[0] < 0xc2) return false;
    else if (p[0] < 0xe0) {
      if (!more(p[1])) return false;
      p += 2;
    } else if (p[0] < 0xf0) {
      if (!more(p[1]) || !more(p[2]) || (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)) return false;
      p += 3;
    } else {
      if (p[0] > 0xf4 || !more(p[1]) || !more(p[2]) || !more(p[3]) || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)) return false;
      p += 4;
    }
  }
  return true;
}

/// Canonical names by number; 0: none of them.
std::uint8_t backend_number(const Text& lower) {
  if (lower.size > 8) return 0;
  const std::uint64_t head = lower.head();
  std::uint8_t number = 0;
  switch (head) {
    case word("cuda"): case word("gpu"): case word("nvidia"): case word("nv"): number = 1; break;
    case word("cpu"): case word("x86"): case word("host"): number = 2; break;
    case word("rocm"): case word("hip"): case word("amd"): number = 3; break;
    default: return 0;
  }
  return (head >> (8 * (lower.size - 1))) != 0 ? number : 0;  // no zero byte behind the name
}
std::uint8_t dtype_number(const Text& lower) {
  if (lower.size > 8) return 0;
  const std::uint64_t head = lower.head();
  std::uint8_t number = 0;
  switch (head) {
    case word("float32"): case word("f32"): case word("fp32"): case word("float"): number = 1; break;
    case word("float64"): case word("f64"): case word("fp64"): case word("double"): number = 2; break;
    case word("float16"): case word("f16"): case word("fp16"): case word("half"): number = 3; break;
    case word("bfloat16"): case word("bf16"): number = 4; break;
    case word("int8"): case word("i8"): case word("char"): number = 5; break;
    case word("int32"): case word("i32"): case word("int"): number = 6; break;
    case word("int64"): case word("i64"): case word("long"): number = 7; break;
    case word("uint8"): case word("u8"): case word("byte"): number = 8; break;
    case word("bool"): case word("boolean"): number = 9; break;
    default: return 0;
  }
  return (head >> (8 * (lower.size - 1))) != 0 ? number : 0;
}

constexpr std::uint64_t two_to_62 = std::uint64_t{1} << 62;
constexpr std::uint64_t symbol_bit = std::uint64_t{1} << 63;
constexpr int deepest = 64;

/// Reads one document after another; keeps its memory between them.
class Reader {
 public:
  enum class Outcome { good, bad_document, bad_field };

  Outcome read(std::string_view document, std::uint8_t* digest) {
    begin(document);
    bad_field_ = nullptr;
    if (!find_tokens(doc_, size_, tokens_)) return Outcome::bad_document;
    if (tokens_.wide && !valid_utf8(doc_, size_)) return Outcome::bad_document;
    if (!top() || token_ != tokens_.at.get() + tokens_.count) return Outcome::bad_document;
    if (bad_field_) return Outcome::bad_field;
    const XXH128_hash_t h = XXH3_128bits(slots_.data(), sizeof slots_);
    std::memcpy(digest, &h, 16);
    return Outcome::good;
  }
  /// Of the last document: the byte near which reading ended, and which field is bad.
  [[nodiscard]] std::size_t position() const { return *token_; }
  [[nodiscard]] const char* bad_field() const { return bad_field_; }

 private:
  enum Slot { op, backend, inputs, attrs, passes, flags, others, small, slot_count };
  // Bits of `seen`; the ignored ones only so that they are found when they stand twice.
  enum Field { f_op, f_backend, f_inputs, f_attrs, f_passes, f_flags, f_opt_level, f_deterministic, f_dynamic, f_ignored, f_unknown = 16 };

  void begin(std::string_view document) {
    size_ = document.size();
    if (size_ > capacity_ || !doc_memory_) {
      capacity_ = size_ + size_ / 2 + 1024;
      doc_memory_ = std::make_unique_for_overwrite<char[]>(capacity_ + 128);
      text_memory_ = std::make_unique_for_overwrite<char[]>(3 * capacity_ + 256);
      out_memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(8 * capacity_ + 1024);
      tokens_.reserve(capacity_);
      doc_ = doc_memory_.get();
    }
    if (size_ > 0) std::memcpy(doc_, document.data(), size_);
    std::memset(doc_ + size_, ' ', 64);
    text_ = text_memory_.get();
    out_ = out_memory_.get();
    token_ = tokens_.at.get();
    *token_ = 0;
    keys_.clear();
    slots_.fill(0);
  }

  [[nodiscard]] char here() const { return doc_[*token_]; }
  bool take(char c) {
    if (here() != c) return false;
    ++token_;
    return true;
  }
  void wrong(const char* field) {
    if (!bad_field_) bad_field_ = field;
  }
  /// A known field's value that has another type: still has to be JSON.
  bool wrong_value(const char* field, int depth) {
    wrong(field);
    return skip(depth);
  }

  // --- tokens ---

  bool literal(const char* text, std::size_t size) {
    const char* p = doc_ + *token_;
    if (std::memcmp(p, text, size) != 0 || !ends_word[static_cast<unsigned char>(p[size])]) return false;
    ++token_;
    return true;
  }
  bool null() { return literal("null", 4); }

  /// At an opening quote; its closing one is the next token.
  bool string(Text& s) {
    const std::uint32_t begin = token_[0] + 1, end = token_[1], size = end - begin;
    token_ += 2;
    s = {doc_ + begin, size};
    if (size <= 56) {
      const auto* bytes = reinterpret_cast<const char*>(tokens_.backslashes.get());
      const std::uint64_t marked = (load64(bytes + begin / 8) >> (begin % 8)) & ((std::uint64_t{1} << size) - 1);
      return marked == 0 || unescape(s, static_cast<std::uint32_t>(__builtin_ctzll(marked)));
    }
    const void* first = std::memchr(s.data, '\\', size);
    return !first || unescape(s, static_cast<std::uint32_t>(static_cast<const char*>(first) - s.data));
  }

  /// `first`: where the first backslash is.
  bool unescape(Text& s, std::uint32_t first) {
    char* out = text_;
    const char *p = s.data, *const end = p + s.size;
    for (std::uint32_t i = 0; i < first; i += 16) std::memcpy(out + i, p + i, 16);
    p += first, out += first;
    while (p < end) {
      if (*p != '\\') {  // the piece up to the next backslash, 8 bytes at a time
        constexpr std::uint64_t ones = 0x0101010101010101u;
        const std::uint64_t piece = load64(p), x = piece ^ ('\\' * ones);
        const std::uint64_t found = (x - ones) & ~x & (0x80 * ones);
        const std::ptrdiff_t size = std::min<std::ptrdiff_t>(end - p, found == 0 ? 8 : __builtin_ctzll(found) >> 3);
        std::memcpy(out, &piece, 8);
        p += size, out += size;
        continue;
      }
      ++p;  // an escaped character is inside the string: the closing quote is not escaped
      switch (*p++) {
        case '"': *out++ = '"'; break;
        case '\\': *out++ = '\\'; break;
        case '/': *out++ = '/'; break;
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        case 'u':
          if (!unicode(p, end, out)) return false;
          break;
        default: return false;
      }
    }
    s = {text_, static_cast<std::uint32_t>(out - text_)};
    text_ = out;
    return true;
  }

  /// -1: no four digits. May look behind the end of the string (its closing quote is no digit).
  static std::int32_t hex4(const char* p) {
    const std::uint32_t a = hex_value[static_cast<unsigned char>(p[0])], b = hex_value[static_cast<unsigned char>(p[1])];
    const std::uint32_t c = hex_value[static_cast<unsigned char>(p[2])], d = hex_value[static_cast<unsigned char>(p[3])];
    if ((a | b | c | d) > 15) return -1;
    return static_cast<std::int32_t>(a << 12 | b << 8 | c << 4 | d);
  }
  static bool unicode(const char*& p, const char* end, char*& out) {
    std::int32_t code = hex4(p);
    if (code < 0) return false;
    p += 4;
    if (code < 0x80) {
      *out++ = static_cast<char>(code);
      return true;
    }
    if (code >= 0xd800 && code < 0xe000) {
      if (code >= 0xdc00 || end - p < 6 || p[0] != '\\' || p[1] != 'u') return false;
      const std::int32_t low = hex4(p + 2);
      if (low < 0xdc00 || low > 0xdfff) return false;
      p += 6;
      code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    if (code >= 0x10000) *out++ = static_cast<char>(0xf0 | code >> 18), *out++ = static_cast<char>(0x80 | (code >> 12 & 0x3f));
    else if (code >= 0x800) *out++ = static_cast<char>(0xe0 | code >> 12);
    if (code >= 0x800) *out++ = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    else *out++ = static_cast<char>(0xc0 | code >> 6);
    *out++ = static_cast<char>(0x80 | (code & 0x3f));
    return true;
  }

  bool number(Number& n) {
    const char *const start = doc_ + *token_, *p = start;
    n.negative = *p == '-';
    p += n.negative;
    if (!is_digit(*p)) return false;
    std::uint64_t mantissa = 0;
    const char* first = p;
    if (*p == '0') {
      if (is_digit(*++p)) return false;
    } else {
      do mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
      while (is_digit(*p));
    }
    std::ptrdiff_t digits = p - first;
    std::int32_t exponent = 0;
    if (*p == '.') {
      const char* point = p++;
      if (!is_digit(*p)) return false;
      do mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
      while (is_digit(*p));
      exponent = -static_cast<std::int32_t>(p - point - 1);
      digits -= exponent;
    }
    const char* const digits_end = p;
    if ((*p | 0x20) == 'e') {
      ++p;
      const bool minus = *p == '-';
      if (minus || *p == '+') ++p;
      if (!is_digit(*p)) return false;
      std::int32_t written = 0;
      do written = std::min(written * 10 + (*p++ - '0'), 10000);
      while (is_digit(*p));
      if (written > 9999) return false;
      exponent += minus ? -written : written;
    }
    if (p - start > 64 || !ends_word[static_cast<unsigned char>(*p)]) return false;
    ++token_;
    n.digit_count = 0;
    n.exponent = exponent;
    if (digits > 19) return many_digits(n, first, digits_end);  // the mantissa may have run over
    n.mantissa = mantissa;
    trim(n);
    return true;
  }
  static void trim(Number& n) {
    if (n.mantissa == 0) {
      n.exponent = 0;
      n.negative = false;
      return;
    }
    while (n.mantissa % 10 == 0) n.mantissa /= 10, ++n.exponent;
  }
  static bool many_digits(Number& n, const char* p, const char* end) {
    std::size_t count = 0;
    for (; p < end; ++p)
      if (*p != '.' && (count > 0 || *p != '0')) n.digits[count++] = *p;
    for (; count > 0 && n.digits[count - 1] == '0'; --count) ++n.exponent;
    n.mantissa = 0;
    if (count <= 19) {
      for (std::size_t i = 0; i < count; ++i) n.mantissa = n.mantissa * 10 + static_cast<std::uint64_t>(n.digits[i] - '0');
      trim(n);
    } else {
      n.digit_count = static_cast<std::uint8_t>(count);
    }
    return true;
  }
  /// Whether it is an integer in 0 .. most, and which.
  static bool natural(const Number& n, std::uint64_t most, std::uint64_t& value) {
    if (n.negative || n.digit_count > 0 || n.exponent < 0 || n.exponent > 19) return false;
    unsigned __int128 wide = n.mantissa;
    for (std::int32_t i = 0; i < n.exponent; ++i) wide *= 10;
    if (wide > most) return false;
    value = static_cast<std::uint64_t>(wide);
    return true;
  }
  bool starts_number() const { return is_digit(here()) || here() == '-'; }

  // --- canonical code: a tag, then fields of fixed or stated length ---

  template <class T>
  void put(T value) {
    std::memcpy(out_, &value, sizeof value);
    out_ += sizeof value;
  }
  void put_text(const Text& s) {
    put(s.size);
    std::memcpy(out_, s.data, 16);
    if (s.size > 16) std::memcpy(out_ + 16, s.data + 16, s.size - 16);
    out_ += s.size;
  }
  void put_number(const Number& n) {
    put(static_cast<std::uint8_t>((n.digit_count > 0 ? '%' : '#') + (n.negative ? 64 : 0)));
    put(n.exponent);
    if (n.digit_count == 0) {
      put(n.mantissa);
    } else {
      put(n.digit_count);
      std::memcpy(out_, n.digits.data(), n.digit_count);
      out_ += n.digit_count;
    }
  }

  bool value(int depth) {
    switch (here()) {
      case '"': {
        Text s;
        if (!string(s)) return false;
        put('s');
        put_text(s);
        return true;
      }
      case '{': return object(depth);
      case '[': {
        if (depth > deepest) return false;
        put('[');
        if (!elements([&] { return value(depth + 1); })) return false;
        put(']');
        return true;
      }
      case 't': put('t'); return literal("true", 4);
      case 'f': put('f'); return literal("false", 5);
      case 'n': put('n'); return null();
      case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9': {
        if (!number(number_)) return false;
        put_number(number_);
        return true;
      }
      default: return false;
    }
  }
  bool skip(int depth) {
    std::uint8_t* const before = out_;
    const bool good = value(depth);
    out_ = before;
    return good;
  }

  /// At an opening bracket; `element` reads one.
  template <class Element>
  bool elements(Element element) {
    ++token_;
    if (take(']')) return true;
    for (;;) {
      if (!element()) return false;
      const char c = here();
      ++token_;
      if (c == ',') continue;
      if (c == ']') return true;
      --token_;
      return false;
    }
  }
  /// At an opening brace; `member` reads a value, given its key.
  template <class MemberReader>
  bool members(MemberReader member) {
    ++token_;
    if (take('}')) return true;
    for (;;) {
      Text key;
      if (here() != '"' || !string(key) || !take(':') || !member(key)) return false;
      const char c = here();
      ++token_;
      if (c == ',') continue;
      if (c == '}') return true;
      --token_;
      return false;
    }
  }

  /// Adds the hash of a member, at its value, to a sum without order.
  bool summand(const Text& key, int depth, Sum& sum) {
    std::uint8_t* const before = out_;
    put_text(key);
    if (!value(depth)) return false;
    sum += hash(before, static_cast<std::size_t>(out_ - before));
    out_ = before;
    return true;
  }
  void note(const Text& key) { keys_.push_back({key.size == 0 ? 0 : key.head(), key}); }
  /// Whether the keys noted since there were `before` are all different; forgets them.
  bool distinct(std::size_t before) {
    const std::size_t count = keys_.size() - before;
    Key* const keys = keys_.data() + before;
    bool good = true;
    if (count > 16) {
      std::sort(keys, keys + count);
      good = std::adjacent_find(keys, keys + count) == keys + count;
    } else {
      for (std::size_t i = 1; i < count; ++i)
        for (std::size_t j = 0; j < i; ++j) good &= !(keys[i] == keys[j]);
    }
    keys_.resize(before);
    return good;
  }

  bool object(int depth) {
    if (depth > deepest) return false;
    const std::size_t before = keys_.size();
    Sum sum = 0;
    std::uint32_t count = 0;
    const auto member = [&](const Text& key) {
      note(key);
      ++count;
      return summand(key, depth + 1, sum);
    };
    if (!members(member) || !distinct(before)) return false;
    put('{');
    put(count);
    put(sum);
    return true;
  }

  /// ASCII lower case, in memory of its own with a byte free in front.
  Text lowered(const Text& s) {
    char* const out = text_ + 1;
    for (std::uint32_t i = 0; i < s.size; i += 8) {
      constexpr std::uint64_t ones = 0x0101010101010101u;
      const std::uint64_t c = load64(s.data + i), low7 = c & (0x7f * ones);
      const std::uint64_t upper = ((low7 + (0x80 - 'A') * ones) ^ (low7 + (0x7f - 'Z') * ones)) & ~c & (0x80 * ones);
      const std::uint64_t lower = c | upper >> 2;
      std::memcpy(out + i, &lower, 8);
    }
    text_ = out + s.size;
    return {out, s.size};
  }

  // --- the document ---

  static Field field_of(const Text& key, std::uint32_t& bit) {
    const auto known = [&](Field field) { bit = 1u << field; return field; };
    const auto ignored = [&](int number) { bit = 1u << (f_ignored + number); return f_ignored; };
    switch (key.size) {
      case 2: if (key.is("op")) return known(f_op); break;
      case 4: if (key.is("user")) return ignored(0); break;
      case 5:
        if (key.is("attrs")) return known(f_attrs);
        if (key.is("flags")) return known(f_flags);
        break;
      case 6:
        if (key.is("inputs")) return known(f_inputs);
        if (key.is("passes")) return known(f_passes);
        break;
      case 7:
        if (key.is("backend")) return known(f_backend);
        if (key.is("dynamic")) return known(f_dynamic);
        break;
      case 8:
        if (key.is("trace_id")) return ignored(1);
        if (key.is("priority")) return ignored(2);
        break;
      case 9:
        if (key.is("opt_level")) return known(f_opt_level);
        if (key.is("timestamp")) return ignored(3);
        break;
      case 10: if (key.is("request_id")) return ignored(4); break;
      case 13: if (key.is("deterministic")) return known(f_deterministic); break;
      default: break;
    }
    return f_unknown;
  }

  bool top() {
    if (here() != '{') return false;
    std::uint32_t seen = 0;
    opt_level_ = 2;
    deterministic_ = dynamic_ = false;
    backend_ = 1;
    const auto member = [&](const Text& key) {
      std::uint32_t bit = 0;
      const Field field = field_of(key, bit);
      if (seen & bit) return false;
      seen |= bit;
      if (field == f_unknown) {
        note(key);
        return summand(key, 2, slots_[others]);
      }
      if (field == f_ignored) return skip(2);
      if (field == f_op) return read_op();
      if (here() == 'n') return null();
      return known_field(field);
    };
    if (!members(member) || !distinct(0)) return false;
    if (!(seen & 1u << f_op)) wrong("op");
    slots_[small] = static_cast<Sum>(backend_ | opt_level_ << 8 | (deterministic_ ? 1u << 16 : 0) | (dynamic_ ? 1u << 17 : 0));
    return true;
  }

  bool read_op() {
    if (here() != '"') return wrong_value("op", 2);
    Text s;
    if (!string(s)) return false;
    if (s.size == 0) wrong("op");
    slots_[op] = hash(s.data, s.size);
    return true;
  }

  bool known_field(Field field) {
    const char c = here();
    switch (field) {
      case f_backend: {
        if (c != '"') return wrong_value("backend", 2);
        Text s;
        if (!string(s)) return false;
        const Text lower = lowered(s);
        backend_ = lower.size == 0 ? 0 : backend_number(lower);
        if (backend_ == 0) slots_[backend] = hash(lower.data, lower.size);
        return true;
      }
      case f_inputs: return c == '[' ? read_inputs() : wrong_value("inputs", 2);
      case f_attrs: return c == '{' ? read_attrs() : wrong_value("attrs", 2);
      case f_passes: return c == '[' ? read_passes() : wrong_value("passes", 2);
      case f_flags: return c == '[' ? read_flags() : wrong_value("flags", 2);
      case f_opt_level: {
        if (!starts_number()) return wrong_value("opt_level", 2);
        std::uint64_t level = 0;
        if (!number(number_)) return false;
        if (!natural(number_, 3, level)) wrong("opt_level");
        opt_level_ = static_cast<std::uint32_t>(level);
        return true;
      }
      case f_deterministic: return boolean("deterministic", 2, deterministic_);
      default: return boolean("dynamic", 2, dynamic_);
    }
  }

  bool boolean(const char* field, int depth, bool& value) {
    const char c = here();
    if (c != 't' && c != 'f') return wrong_value(field, depth);
    value = c == 't';
    return value ? literal("true", 4) : literal("false", 5);
  }

  bool read_attrs() {
    const auto member = [&](const Text& key) {
      note(key);
      return here() == 'n' ? null() : summand(key, 3, slots_[attrs]);
    };
    const std::size_t before = keys_.size();
    return members(member) && distinct(before);
  }

  bool read_passes() {
    std::uint8_t* const before = out_;
    const auto pass = [&] {
      if (here() != '"') return wrong_value("passes", 3);
      Text s;
      if (!string(s)) return false;
      put_text(s);
      return true;
    };
    if (!elements(pass)) return false;
    if (out_ != before) slots_[passes] = hash(before, static_cast<std::size_t>(out_ - before));
    out_ = before;
    return true;
  }

  // --- flags ---

  static bool is_any(const Text& lower, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    const std::uint64_t head = lower.head();
    return (head == a || head == b || head == c) && (head >> (8 * (lower.size - 1))) != 0;
  }

  bool read_flags() {
    flags_.clear();
    const auto flag = [&] {
      if (here() != '"') return wrong_value("flags", 3);
      Text s;
      if (!string(s)) return false;
      if (!add_flag(s)) wrong("flags");
      return true;
    };
    if (!elements(flag)) return false;
    if (flags_.size() > 16) keep_last();
    for (std::size_t i = 0; i < flags_.size(); ++i) {
      bool overridden = false;
      if (flags_.size() <= 16)
        for (std::size_t j = i + 1; j < flags_.size(); ++j) overridden |= flags_[i].name == flags_[j].name;
      if (!overridden) sum_flag(flags_[i]);
    }
    return true;
  }
  /// For many: the last of each name, by sorting.
  void keep_last() {
    std::stable_sort(flags_.begin(), flags_.end(), [](const Flag& a, const Flag& b) { return a.name < b.name; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < flags_.size(); ++i)
      if (i + 1 == flags_.size() || !(flags_[i].name == flags_[i + 1].name)) {
        const Flag flag = flags_[i];
        flags_[kept++] = flag;
      }
    flags_.resize(kept);
    for (const Flag& flag : flags_) sum_flag(flag);
    flags_.clear();
  }
  bool add_flag(Text s) {
    Flag flag{{}, Flag::Setting::yes, {}};
    Text name = s;
    if (s.begins("no-")) {
      name = {s.data + 3, s.size - 3};
      flag.setting = Flag::Setting::no;
    }
    std::uint32_t size = 0;
    while (size < name.size && in_flag[static_cast<unsigned char>(name.data[size])]) ++size;
    if (size < name.size) {
      if (name.data[size] != '=' || flag.setting == Flag::Setting::no) return false;
      flag.setting = Flag::Setting::text;
      flag.text = {name.data + size + 1, name.size - size - 1};
      name.size = size;
      if (flag.text.size > 0 && flag.text.size <= 5) {
        const Text lower = lowered(flag.text);
        if (is_any(lower, word("true"), word("on"), word("yes"))) flag.setting = Flag::Setting::yes;
        if (is_any(lower, word("false"), word("off"), word("no"))) flag.setting = Flag::Setting::no;
      }
    }
    if (name.size == 0 || name.data[0] == '-' || name.begins("no-")) return false;
    flag.name = {name.head(), name};
    flags_.push_back(flag);
    return true;
  }
  void sum_flag(const Flag& flag) {
    const Text& name = flag.name.text;
    if (flag.setting == Flag::Setting::yes && name.is("cse")) return;
    if (flag.setting == Flag::Setting::no && (name.is("debug") || name.is("fast-math") || name.is("bounds-check"))) return;
    std::uint8_t* const before = out_;
    put(flag.setting);
    put_text(name);
    if (flag.setting == Flag::Setting::text) put_text(flag.text);
    slots_[flags] += hash(before, static_cast<std::size_t>(out_ - before));
    out_ = before;
  }

  // --- inputs ---

  bool read_inputs() {
    symbols_.clear();
    symbol_numbers_.clear();
    std::uint8_t* const before = out_;
    if (!elements([&] { return here() == '{' ? read_tensor() : wrong_value("inputs", 3); })) return false;
    if (out_ != before) slots_[inputs] = hash(before, static_cast<std::size_t>(out_ - before));
    out_ = before;
    return true;
  }

  bool read_tensor() {
    shape_.clear();
    stride_.clear();
    std::uint32_t seen = 0;
    bool symbolic = false, has_stride = false, requires_grad = false;
    std::uint8_t dtype = 1, device = 1;
    Text dtype_text, device_text;
    Sum extra = 0;
    const std::size_t before = keys_.size();
    const auto once = [&](std::uint32_t bit) { return !(std::exchange(seen, seen | bit) & bit); };
    const auto member = [&](const Text& key) {
      if (key.is("shape")) return once(1) && (here() == '[' ? read_shape(symbolic) : wrong_value("shape", 4));
      if (key.is("dtype")) return once(2) && (here() == 'n' ? null() : read_dtype(dtype, dtype_text));
      if (key.is("stride")) {
        if (!once(4)) return false;
        if (here() == 'n') return null();
        has_stride = true;
        return here() == '[' ? read_stride() : wrong_value("stride", 4);
      }
      if (key.is("device")) return once(8) && (here() == 'n' ? null() : read_device(device, device_text));
      if (key.is("requires_grad")) return once(16) && (here() == 'n' ? null() : boolean("requires_grad", 4, requires_grad));
      note(key);
      return summand(key, 4, extra);
    };
    if (!members(member) || !distinct(before)) return false;
    if (!(seen & 1)) wrong("shape");
    put(static_cast<std::uint8_t>(requires_grad));
    put(static_cast<std::uint32_t>(shape_.size()));
    for (const std::uint64_t size : shape_) put(size);
    put(dtype);
    if (dtype == 0) put_text(dtype_text);
    put(device);
    if (device == 0) put_text(device_text);
    if (!symbolic) check_product();
    if (has_stride && symbolic) wrong("stride");
    else if (has_stride && stride_.size() != shape_.size()) wrong("stride");
    const bool strided = has_stride && !bad_field_ && !is_contiguous();
    put(static_cast<std::uint8_t>(strided));
    if (strided)
      for (std::size_t d = 0; d < shape_.size(); ++d) put(shape_[d] == 1 ? ~std::uint64_t{0} : stride_[d]);
    put(extra);
    return true;
  }

  bool read_shape(bool& symbolic) {
    return elements([&] {
      if (starts_number()) {
        std::uint64_t size = 0;
        if (!number(number_)) return false;
        if (!natural(number_, std::numeric_limits<std::int32_t>::max(), size)) wrong("shape");
        shape_.push_back(size);
        return true;
      }
      if (here() != '"') return wrong_value("shape", 5);
      Text s;
      if (!string(s)) return false;
      symbolic = true;
      bool good = s.size > 0 && !is_digit(s.data[0]);
      for (std::uint32_t i = 0; i < s.size; ++i) good &= in_symbol[static_cast<unsigned char>(s.data[i])];
      if (good) shape_.push_back(symbol_bit | symbol_number(s));
      else wrong("shape");
      return true;
    });
  }
  /// By first occurrence in the document.
  std::uint64_t symbol_number(const Text& s) {
    const Key key{s.head(), s};
    if (symbols_.size() < 32) {
      const auto number = static_cast<std::uint64_t>(std::find(symbols_.begin(), symbols_.end(), key) - symbols_.begin());
      if (number == symbols_.size()) symbols_.push_back(key);
      return number;
    }
    if (symbol_numbers_.empty())
      for (std::size_t i = 0; i < symbols_.size(); ++i) symbol_numbers_.emplace(symbols_[i].text.view(), i);
    return symbol_numbers_.emplace(s.view(), symbol_numbers_.size()).first->second;
  }

  bool read_stride() {
    return elements([&] {
      if (!starts_number()) return wrong_value("stride", 5);
      std::uint64_t entry = 0;
      if (!number(number_)) return false;
      if (!natural(number_, two_to_62, entry)) wrong("stride");
      stride_.push_back(entry);
      return true;
    });
  }
  void check_product() {
    std::uint64_t product = 1;
    for (const std::uint64_t size : shape_) {
      if (size <= 1) continue;
      const unsigned __int128 wide = static_cast<unsigned __int128>(product) * size;
      if (wide > two_to_62) return wrong("shape");
      product = static_cast<std::uint64_t>(wide);
    }
  }
  /// In all entries that matter.
  [[nodiscard]] bool is_contiguous() const {
    bool equal = true, empty = false;
    std::uint64_t wanted = 1;
    for (std::size_t d = shape_.size(); d-- > 0;) {
      equal &= shape_[d] == 1 || stride_[d] == wanted;
      empty |= shape_[d] == 0;
      wanted *= shape_[d];
    }
    return equal || empty;
  }

  bool read_dtype(std::uint8_t& number, Text& text) {
    if (here() != '"') return wrong_value("dtype", 4);
    Text s;
    if (!string(s)) return false;
    text = lowered(s);
    if (text.begins("torch.")) text = {text.data + 6, text.size - 6};
    number = text.size == 0 ? 0 : dtype_number(text);
    return true;
  }
  bool read_device(std::uint8_t& number, Text& text) {
    if (here() != '"') return wrong_value("device", 4);
    Text s;
    if (!string(s)) return false;
    text = lowered(s);
    if (text.begins("gpu:")) {
      char* const longer = const_cast<char*>(text.data) - 1;  // lowered() left a byte in front
      std::memcpy(longer, "cuda", 4);
      text = {longer, text.size + 1};
    }
    number = text.is("cuda:0") || text.is("cuda") || text.is("gpu") ? 1 : text.is("cpu") || text.is("cpu:0") ? 2 : 0;
    return true;
  }

  std::unique_ptr<char[]> doc_memory_, text_memory_;
  std::unique_ptr<std::uint8_t[]> out_memory_;
  std::size_t capacity_ = 0;
  Tokens tokens_;
  char* doc_ = nullptr;       // the document, 64 spaces behind it
  std::size_t size_ = 0;
  std::uint32_t* token_ = nullptr;
  char* text_ = nullptr;      // next free byte for unescaped text
  std::uint8_t* out_ = nullptr;  // next free byte of canonical code
  const char* bad_field_ = nullptr;
  Number number_;
  std::vector<Key> keys_;     // of the objects that are open
  std::vector<Flag> flags_;
  std::vector<Key> symbols_;
  std::unordered_map<std::string_view, std::uint64_t> symbol_numbers_;
  std::vector<std::uint64_t> shape_, stride_;
  std::uint32_t opt_level_ = 2, backend_ = 1;
  bool deterministic_ = false, dynamic_ = false;
  std::array<Sum, slot_count> slots_{};
};

}  // namespace

Rejected canonical_digests(std::string_view documents, View<const std::int64_t, 1> offsets, View<std::uint8_t, 2> digest) {
  const std::int64_t count = digest.extent(0);
  const auto document = [&](std::int64_t i) { return documents.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i])); };
  std::vector<std::uint8_t> digests(static_cast<std::size_t>(count) * 16);  // nothing is written before all documents are known to be good
  std::int64_t bad_document = count, bad_field = count;
#pragma omp parallel if (count >= 128) reduction(min : bad_document, bad_field)
  {
    Reader reader;
#pragma omp for schedule(dynamic, 128)
    for (std::int64_t i = 0; i < count; ++i) {
      const Reader::Outcome outcome = reader.read(document(i), digests.data() + 16 * i);
      if (outcome == Reader::Outcome::bad_document) bad_document = std::min(bad_document, i);
      if (outcome == Reader::Outcome::bad_field) bad_field = std::min(bad_field, i);
    }
  }
  if (const std::int64_t i = bad_document < count ? bad_document : bad_field; i < count) {
    Reader reader;
    const bool syntax = reader.read(document(i), digests.data()) == Reader::Outcome::bad_document;
    return reject(syntax ? "bad_document" : "bad_field", "doc_offsets", i, std::to_string(offsets[i]),
                  "document " + std::to_string(i) + (syntax ? " is no JSON document of the contract's form, near byte " + std::to_string(reader.position()) : std::string(" has a bad field '") + reader.bad_field() + "'"));
  }
  if (count > 0) std::memcpy(digest.data(), digests.data(), digests.size());
  return std::nullopt;
}

}  // namespace faibench::compile_cache_key_canon::cpu
