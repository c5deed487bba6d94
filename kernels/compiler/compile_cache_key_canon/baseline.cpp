// A first version of the key: a tree of heap nodes, the checks, the document written out again compactly, the first half of its SHA-256.
// Keys stay in the order given and numbers as spelled, so equal keys mean equal documents, but many spellings of one request get keys of their own.
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/compiler/compile_cache_key_canon/compile_cache_key_canon.h"

namespace faibench::compile_cache_key_canon::baseline {
namespace {

struct Node {
  char type = 'n';  // n null, t true, f false, 0 number, " string, [ array, { object
  std::string text;
  std::vector<std::unique_ptr<Node>> elements;
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> members;
};
using NodePtr = std::unique_ptr<Node>;

struct SyntaxError {
  std::size_t offset;
  std::string what;
};
struct FieldError {
  std::string what;
};

class JsonReader {
 public:
  JsonReader(const char* begin, const char* end) : begin_(begin), p_(begin), end_(end) {}

  NodePtr read() {
    NodePtr root = read_value(1);
    if (root->type != '{') error("no object at the top");
    spaces();
    if (p_ != end_) error("something after the document");
    return root;
  }

 private:
  [[noreturn]] void error(const char* what) const { throw SyntaxError{static_cast<std::size_t>(p_ - begin_), what}; }
  char now() const { return p_ < end_ ? *p_ : '\0'; }
  void spaces() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
  }
  void expect(const char* word) {
    for (; *word; ++word, ++p_)
      if (now() != *word) error("unknown word");
  }

  NodePtr read_value(int depth) {
    spaces();
    if (p_ == end_) error("the document ends early");
    NodePtr node = std::make_unique<Node>();
    node->type = *p_;
    switch (*p_) {
      case '{': read_object(*node, depth); break;
      case '[': read_array(*node, depth); break;
      case '"': node->text = read_string(); break;
      case 't': expect("true"); break;
      case 'f': expect("false"); break;
      case 'n': expect("null"); break;
      default: node->type = '0'; read_number(*node);
    }
    return node;
  }

  void read_object(Node& node, int depth) {
    if (depth > 64) error("too deep");
    ++p_;
    spaces();
    if (now() == '}') {
      ++p_;
      return;
    }
    for (;;) {
      spaces();
      if (now() != '"') error("a key was expected");
      std::string key = read_string();
      for (const auto& member : node.members)
        if (member.first == key) error("the key before this byte is there already");
      spaces();
      if (now() != ':') error("a colon was expected");
      ++p_;
      NodePtr value = read_value(depth + 1);
      node.members.emplace_back(std::move(key), std::move(value));
      spaces();
      const char c = now();
      if (c != ',' && c != '}') error("a comma or a closing brace was expected");
      ++p_;
      if (c == '}') return;
    }
  }

  void read_array(Node& node, int depth) {
    if (depth > 64) error("too deep");
    ++p_;
    spaces();
    if (now() == ']') {
      ++p_;
      return;
    }
    for (;;) {
      node.elements.push_back(read_value(depth + 1));
      spaces();
      const char c = now();
      if (c != ',' && c != ']') error("a comma or a closing bracket was expected");
      ++p_;
      if (c == ']') return;
    }
  }

  void read_digits() {
    if (now() < '0' || now() > '9') error("a digit was expected");
    while (now() >= '0' && now() <= '9') ++p_;
  }

  void read_number(Node& node) {
    const char* start = p_;
    if (now() == '-') ++p_;
    if (now() == '0') ++p_;
    else read_digits();
    if (now() == '.') {
      ++p_;
      read_digits();
    }
    if (now() == 'e' || now() == 'E') {
      ++p_;
      if (now() == '+' || now() == '-') ++p_;
      const char* first = p_;
      read_digits();
      while (p_ - first > 4 && *first == '0') ++first;
      if (p_ - first > 4) error("the exponent is too large");
    }
    if (p_ - start > 64) error("the number is too long");
    node.text.assign(start, p_);
  }

  unsigned read_hex() {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = now();
      unsigned nibble = 0;
      if (c >= '0' && c <= '9') nibble = static_cast<unsigned>(c - '0');
      else if (c >= 'a' && c <= 'f') nibble = static_cast<unsigned>(c - 'a') + 10;
      else if (c >= 'A' && c <= 'F') nibble = static_cast<unsigned>(c - 'A') + 10;
      else error("a hexadecimal digit was expected");
      value = value << 4 | nibble;
      ++p_;
    }
    return value;
  }

  static void append_utf8(std::string& s, unsigned c) {
    if (c < 0x80) {
      s.push_back(static_cast<char>(c));
      return;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static constexpr unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    s.push_back(static_cast<char>(lead[more] | (c >> (6 * more))));
    while (more-- > 0) s.push_back(static_cast<char>(0x80 | ((c >> (6 * more)) & 0x3f)));
  }

  void read_escape(std::string& s) {
    ++p_;
    const char c = now();
    static constexpr char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (c != 'u') {
      const char* known = c ? std::strchr(names, c) : nullptr;
      if (!known) error("unknown escape");
      s.push_back(meant[known - names]);
      ++p_;
      return;
    }
    ++p_;
    unsigned unit = read_hex();
    if ((unit & 0xfc00) == 0xdc00) error("a low surrogate alone");
    if ((unit & 0xfc00) == 0xd800) {
      if (end_ - p_ < 2 || p_[0] != '\\' || p_[1] != 'u') error("a high surrogate alone");
      p_ += 2;
      const unsigned second = read_hex();
      if ((second & 0xfc00) != 0xdc00) error("a high surrogate alone");
      unit = 0x10000 + ((unit & 0x3ff) << 10 | (second & 0x3ff));
    }
    append_utf8(s, unit);
  }

  // Decodes the sequence and looks at the code point: too small for its length, a surrogate or past U+10FFFF is wrong.
  void read_multibyte(std::string& s) {
    const auto lead = static_cast<unsigned char>(*p_);
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc0 || lead > 0xf7 || end_ - p_ <= more) error("no UTF-8");
    unsigned code = lead & (0x3fu >> more);
    for (int i = 1; i <= more; ++i) {
      const auto next = static_cast<unsigned char>(p_[i]);
      if ((next & 0xc0) != 0x80) error("no UTF-8");
      code = code << 6 | (next & 0x3f);
    }
    static constexpr unsigned least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) error("no UTF-8");
    s.append(p_, static_cast<std::size_t>(more) + 1);
    p_ += more + 1;
  }

  std::string read_string() {
    std::string s;
    for (++p_;;) {
      if (p_ == end_) error("a string does not end");
      const auto c = static_cast<unsigned char>(*p_);
      if (c == '"') break;
      if (c < 0x20) error("a control character in a string");
      if (c == '\\') read_escape(s);
      else if (c >= 0x80) read_multibyte(s);
      else s.push_back(*p_++);
    }
    ++p_;
    return s;
  }

  const char *begin_, *p_, *end_;
};

// True for an integer-valued number in 0 .. most; then `value` is it.
bool natural(const Node& node, std::uint64_t most, std::uint64_t& value) {
  if (node.type != '0') return false;
  const std::string& text = node.text;
  std::size_t e = text.find_first_of("eE");
  const int shift = e == std::string::npos ? 0 : std::stoi(text.substr(e + 1));
  std::string digits = text.substr(0, e);
  const bool minus = digits[0] == '-';
  if (minus) digits.erase(0, 1);
  long point = static_cast<long>(digits.size());
  if (const std::size_t dot = digits.find('.'); dot != std::string::npos) {
    point = static_cast<long>(dot);
    digits.erase(dot, 1);
  }
  point += shift;  // the digits before it are whole
  value = 0;
  if (digits.find_first_not_of('0') == std::string::npos) return true;
  if (minus) return false;
  const long size = static_cast<long>(digits.size());
  for (long i = std::max(0L, point); i < size; ++i)
    if (digits[static_cast<std::size_t>(i)] != '0') return false;
  for (long i = 0; i < point; ++i) {
    const std::uint64_t digit = i < size ? static_cast<std::uint64_t>(digits[static_cast<std::size_t>(i)] - '0') : 0;
    if (value > (most - digit) / 10 || digit > most) return false;
    value = value * 10 + digit;
  }
  return true;
}

const Node* get(const Node& object, const char* key) {
  for (const auto& [name, value] : object.members)
    if (name == key) return value.get();
  return nullptr;
}

// The member if it is there and not null; its type must be among `types`.
const Node* known(const Node& object, const char* key, const char* types) {
  const Node* node = get(object, key);
  if (!node || node->type == 'n') return nullptr;
  if (!std::strchr(types, node->type)) throw FieldError{std::string("'") + key + "' has another type"};
  return node;
}

bool symbol(const std::string& s) {
  static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  return !s.empty() && std::string(letters).find(s[0]) != std::string::npos && s.find_first_not_of(std::string(letters) + "0123456789") == std::string::npos;
}

void check_tensor(const Node& tensor) {
  if (tensor.type != '{') throw FieldError{"an input is no object"};
  const Node* shape = get(tensor, "shape");
  if (!shape || shape->type != '[') throw FieldError{"'shape' is no array"};
  bool symbols = false;
  std::uint64_t product = 1, size = 0;
  for (const NodePtr& entry : shape->elements) {
    if (entry->type == '"') {
      if (!symbol(entry->text)) throw FieldError{"bad symbol '" + entry->text + "'"};
      symbols = true;
    } else if (!natural(*entry, std::numeric_limits<std::int32_t>::max(), size)) {
      throw FieldError{"bad size"};
    }
  }
  for (std::size_t i = 0; !symbols && i < shape->elements.size(); ++i) {
    natural(*shape->elements[i], std::numeric_limits<std::int32_t>::max(), size);
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) throw FieldError{"too many elements"};
    if (product > std::uint64_t{1} << 62) throw FieldError{"too many elements"};
  }
  known(tensor, "dtype", "\"");
  known(tensor, "device", "\"");
  known(tensor, "requires_grad", "tf");
  if (const Node* stride = known(tensor, "stride", "[")) {
    if (symbols) throw FieldError{"'stride' with symbols in 'shape'"};
    if (stride->elements.size() != shape->elements.size()) throw FieldError{"'stride' is not as long as 'shape'"};
    for (const NodePtr& entry : stride->elements)
      if (!natural(*entry, std::uint64_t{1} << 62, size)) throw FieldError{"bad stride"};
  }
}

void check_flag(const Node& flag) {
  if (flag.type != '"') throw FieldError{"a flag is no string"};
  std::string name = flag.text.substr(0, flag.text.find('='));
  const bool has_value = name.size() < flag.text.size();
  if (!has_value && name.compare(0, 3, "no-") == 0) name = name.substr(3);
  if (name.empty() || name[0] == '-' || name.compare(0, 3, "no-") == 0 || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos)
    throw FieldError{"bad flag"};
}

void check_fields(const Node& root) {
  const Node* op = get(root, "op");
  if (!op || op->type != '"' || op->text.empty()) throw FieldError{"'op' is no text"};
  known(root, "backend", "\"");
  known(root, "attrs", "{");
  known(root, "deterministic", "tf");
  known(root, "dynamic", "tf");
  if (const Node* inputs = known(root, "inputs", "["))
    for (const NodePtr& tensor : inputs->elements) check_tensor(*tensor);
  if (const Node* passes = known(root, "passes", "["))
    for (const NodePtr& pass : passes->elements)
      if (pass->type != '"') throw FieldError{"a pass is no string"};
  if (const Node* flags = known(root, "flags", "["))
    for (const NodePtr& flag : flags->elements) check_flag(*flag);
  std::uint64_t level = 0;
  if (const Node* opt_level = known(root, "opt_level", "0"); opt_level && !natural(*opt_level, 3, level)) throw FieldError{"'opt_level' is not 0, 1, 2 or 3"};
}

void write_string(std::string& out, const std::string& s) {
  out.push_back('"');
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      static constexpr char hex[] = "0123456789abcdef";
      out.append("\\u00");
      out.push_back(hex[c >> 4]);
      out.push_back(hex[c & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

void write(std::string& out, const Node& node) {
  switch (node.type) {
    case 'n': out += "null"; break;
    case 't': out += "true"; break;
    case 'f': out += "false"; break;
    case '0': out += node.text; break;
    case '"': write_string(out, node.text); break;
    case '[':
      out.push_back('[');
      for (const NodePtr& element : node.elements) {
        if (&element != &node.elements.front()) out.push_back(',');
        write(out, *element);
      }
      out.push_back(']');
      break;
    case '{':
      out.push_back('{');
      for (const auto& member : node.members) {
        if (&member != &node.members.front()) out.push_back(',');
        write_string(out, member.first);
        out.push_back(':');
        write(out, *member.second);
      }
      out.push_back('}');
      break;
  }
}

// FIPS 180-4.
class Sha256 {
 public:
  static std::array<std::uint8_t, 32> of(const std::string& message) {
    Sha256 sha;
    std::size_t at = 0;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(message.data());
    for (; at + 64 <= message.size(); at += 64) sha.block(bytes + at);
    std::uint8_t tail[128] = {};
    const std::size_t left = message.size() - at, tail_size = left < 56 ? 64 : 128;
    std::memcpy(tail, bytes + at, left);
    tail[left] = 0x80;
    for (std::size_t i = 0; i < 8; ++i) tail[tail_size - 1 - i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(message.size()) * 8 >> (8 * i));
    for (std::size_t i = 0; i < tail_size; i += 64) sha.block(tail + i);
    std::array<std::uint8_t, 32> out{};
    for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<std::uint8_t>(sha.state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  static std::uint32_t turn(std::uint32_t x, int n) { return x >> n | x << (32 - n); }
  void block(const std::uint8_t* p) {
    static constexpr std::uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
        0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
        0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
        0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
        0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = std::uint32_t{p[4 * i]} << 24 | std::uint32_t{p[4 * i + 1]} << 16 | std::uint32_t{p[4 * i + 2]} << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; ++i)
      w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] + (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    auto [a, b, c, d, e, f, g, h] = state_;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];
      const std::uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    state_[0] += a, state_[1] += b, state_[2] += c, state_[3] += d, state_[4] += e, state_[5] += f, state_[6] += g, state_[7] += h;
  }
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

}  // namespace

Rejected canonical_digests(std::string_view documents, View<const std::int64_t, 1> offsets, View<std::uint8_t, 2> digest) {
  std::vector<std::array<std::uint8_t, 32>> keys;
  Rejected bad_field;
  for (std::int64_t i = 0; i < digest.extent(0); ++i) {
    const std::string name = "document " + std::to_string(i);
    try {
      const NodePtr root = JsonReader(documents.data() + offsets[i], documents.data() + offsets[i + 1]).read();
      if (bad_field) continue;  // only a bad_document further on can still change the answer
      check_fields(*root);
      std::string text;
      write(text, *root);
      keys.push_back(Sha256::of(text));
    } catch (const SyntaxError& error) {
      return reject("bad_document", "doc_offsets", i, std::to_string(offsets[i]), name + ", byte " + std::to_string(error.offset) + ": " + error.what);
    } catch (const FieldError& error) {
      bad_field = reject("bad_field", "doc_offsets", i, std::to_string(offsets[i]), name + ": " + error.what);
    }
  }
  if (bad_field) return bad_field;
  for (std::size_t i = 0; i < keys.size(); ++i) std::memcpy(digest.data() + 16 * i, keys[i].data(), 16);
  return std::nullopt;
}

}  // namespace faibench::compile_cache_key_canon::baseline
