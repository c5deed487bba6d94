// The reference: recursive descent into a tree of values, then the contract's rules one after another into a text.
#include "kernels/compiler/compile_cache_key_canon/reference.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/compiler/compile_cache_key_canon/compile_cache_key_canon.h"

namespace faibench::compile_cache_key_canon::reference {
namespace {

struct Member;
struct Value {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::string text;              // a number as spelled, a string after unescaping
  std::vector<Value> items;
  std::vector<Member> members;   // sorted by key
};
struct Member {
  std::string key;
  Value value;
};

struct BadDocument {
  std::size_t position;
  const char* why;
};
struct BadField {
  std::string why;
};

// RFC 8259, with the contract's limits on depth and numbers. Throws BadDocument.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Value document() {
    skip_white();
    if (peek() != '{') fail("the top level is no object");
    Value value = object(1);
    skip_white();
    if (at_ != text_.size()) fail("text after the object");
    return value;
  }

 private:
  static constexpr int deepest = 64;

  [[noreturn]] void fail(const char* why) const { throw BadDocument{at_, why}; }
  // -1 at the end.
  [[nodiscard]] int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }
  [[nodiscard]] bool digit() const { return peek() >= '0' && peek() <= '9'; }
  void skip_white() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Value value(int depth) {
    Value v;
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': v.kind = Value::Kind::string; v.text = string(); return v;
      case 't': word("true"); v.kind = Value::Kind::boolean; v.boolean = true; return v;
      case 'f': word("false"); v.kind = Value::Kind::boolean; return v;
      case 'n': word("null"); return v;
      default: v.kind = Value::Kind::number; v.text = number(); return v;
    }
  }

  void word(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) fail("no JSON value");
    at_ += wanted.size();
  }

  Value object(int depth) {
    if (depth > deepest) fail("nesting deeper than 64");
    Value v;
    v.kind = Value::Kind::object;
    ++at_;
    skip_white();
    if (take('}')) return v;
    do {
      skip_white();
      if (peek() != '"') fail("a member must begin with a string");
      std::string key = string();
      skip_white();
      if (!take(':')) fail("no colon after a key");
      skip_white();
      v.members.push_back({std::move(key), value(depth + 1)});
      skip_white();
    } while (take(','));
    if (!take('}')) fail("an object goes on with neither comma nor brace");
    std::sort(v.members.begin(), v.members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
    for (std::size_t i = 1; i < v.members.size(); ++i)
      if (v.members[i].key == v.members[i - 1].key) fail("a key stands twice in the object that ends here");
    return v;
  }

  Value array(int depth) {
    if (depth > deepest) fail("nesting deeper than 64");
    Value v;
    v.kind = Value::Kind::array;
    ++at_;
    skip_white();
    if (take(']')) return v;
    do {
      skip_white();
      v.items.push_back(value(depth + 1));
      skip_white();
    } while (take(','));
    if (!take(']')) fail("an array goes on with neither comma nor bracket");
    return v;
  }

  std::string number() {
    const std::size_t begin = at_;
    take('-');
    if (!digit()) fail("no JSON value");
    if (!take('0'))
      while (digit()) ++at_;
    if (take('.')) {
      if (!digit()) fail("no digit after the point");
      while (digit()) ++at_;
    }
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!digit()) fail("no digit in the exponent");
      int exponent = 0;
      for (; digit(); ++at_) exponent = std::min(exponent * 10 + (peek() - '0'), 10000);
      if (exponent > 9999) fail("an exponent beyond 9999");
    }
    if (at_ - begin > 64) fail("a number longer than 64 characters");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string string() {
    std::string out;
    ++at_;
    for (;;) {
      const int c = peek();
      if (c < 0) fail("a string without end");
      if (c < 0x20) fail("a raw control character in a string");
      if (c == '"') break;
      if (c == '\\') {
        ++at_;
        escape(out);
      } else if (c < 0x80) {
        out += static_cast<char>(c);
        ++at_;
      } else {
        out += utf8_sequence(c);
      }
    }
    ++at_;
    return out;
  }

  // The well-formed sequences of the Unicode standard (table 3-7).
  std::string_view utf8_sequence(int lead) {
    const auto byte = [&](std::size_t i) { return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0u; };
    unsigned low = 0x80, high = 0xbf;
    std::size_t length = 0;
    if (lead >= 0xc2 && lead <= 0xdf) length = 2;
    else if (lead >= 0xe0 && lead <= 0xef) length = 3;
    else if (lead >= 0xf0 && lead <= 0xf4) length = 4;
    else fail("invalid UTF-8");
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (byte(1) < low || byte(1) > high) fail("invalid UTF-8");
    for (std::size_t i = 2; i < length; ++i)
      if (byte(i) < 0x80 || byte(i) > 0xbf) fail("invalid UTF-8");
    at_ += length;
    return text_.substr(at_ - length, length);
  }

  std::uint32_t hex4() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const int c = peek();
      if (c >= '0' && c <= '9') code = code * 16 + static_cast<std::uint32_t>(c - '0');
      else if (c >= 'a' && c <= 'f') code = code * 16 + static_cast<std::uint32_t>(c - 'a' + 10);
      else if (c >= 'A' && c <= 'F') code = code * 16 + static_cast<std::uint32_t>(c - 'A' + 10);
      else fail("no hexadecimal digit in an escape");
    }
    return code;
  }

  void escape(std::string& out) {
    const int c = peek();
    ++at_;
    switch (c) {
      case '"': case '\\': case '/': out += static_cast<char>(c); return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case 'n': out += '\n'; return;
      case 'r': out += '\r'; return;
      case 't': out += '\t'; return;
      case 'u': break;
      default: --at_; fail("an unknown escape");
    }
    std::uint32_t code = hex4();
    if (code >= 0xdc00 && code <= 0xdfff) fail("an unpaired surrogate escape");
    if (code >= 0xd800 && code <= 0xdbff) {
      if (!take('\\') || !take('u')) fail("an unpaired surrogate escape");
      const std::uint32_t low = hex4();
      if (low < 0xdc00 || low > 0xdfff) fail("an unpaired surrogate escape");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
      put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The exact value of a number: sign, digits without zeros at either end, power of ten of the last digit. Zero has no digits.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;
};

Decimal decimal(std::string_view spelled) {
  Decimal d;
  std::size_t i = 0;
  if (spelled[0] == '-') d.negative = true, i = 1;
  bool fraction = false;
  for (; i < spelled.size() && spelled[i] != 'e' && spelled[i] != 'E'; ++i) {
    if (spelled[i] == '.') {
      fraction = true;
      continue;
    }
    if (fraction) --d.exponent;
    if (!d.digits.empty() || spelled[i] != '0') d.digits += spelled[i];
  }
  if (i < spelled.size()) {
    ++i;
    if (spelled[i] == '+') ++i;
    int written = 0;
    std::from_chars(spelled.data() + i, spelled.data() + spelled.size(), written);
    d.exponent += written;
  }
  while (!d.digits.empty() && d.digits.back() == '0') d.digits.pop_back(), ++d.exponent;
  if (d.digits.empty()) return {};
  return d;
}

// The integer that a number stands for, if it is one in 0 .. most; most < 10^19.
std::optional<std::uint64_t> integer(const Value& v, std::uint64_t most) {
  if (v.kind != Value::Kind::number) return std::nullopt;
  Decimal d = decimal(v.text);
  if (d.digits.empty()) return 0;
  if (d.negative || d.exponent < 0 || d.digits.size() + static_cast<std::size_t>(d.exponent) > 19) return std::nullopt;
  d.digits.append(static_cast<std::size_t>(d.exponent), '0');
  std::uint64_t value = 0;
  std::from_chars(d.digits.data(), d.digits.data() + d.digits.size(), value);
  if (value > most) return std::nullopt;
  return value;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Every piece of a signature says its kind and its length, so that no two sequences of pieces read alike.
void put_string(std::string& out, std::string_view text) { out.append("s").append(std::to_string(text.size())).append(":").append(text); }
void put_integer(std::string& out, std::uint64_t value) { out.append("i").append(std::to_string(value)).append(";"); }

void put_value(std::string& out, const Value& v) {
  switch (v.kind) {
    case Value::Kind::null: out += 'z'; break;
    case Value::Kind::boolean: out += v.boolean ? 't' : 'f'; break;
    case Value::Kind::string: put_string(out, v.text); break;
    case Value::Kind::number: {
      const Decimal d = decimal(v.text);
      out.append(d.negative ? "n-" : "n").append(d.digits).append("e").append(std::to_string(d.exponent)).append(";");
      break;
    }
    case Value::Kind::array:
      out += '[';
      for (const Value& item : v.items) put_value(out, item);
      out += ']';
      break;
    case Value::Kind::object:
      out += '{';
      for (const Member& m : v.members) put_string(out, m.key), put_value(out, m.value);
      out += '}';
      break;
  }
}

const Value* find(const Value& object, std::string_view key) {
  for (const Member& m : object.members)
    if (m.key == key) return &m.value;
  return nullptr;
}
// A known field, for which null means absence.
const Value* field(const Value& object, std::string_view key) {
  const Value* v = find(object, key);
  return v && v->kind != Value::Kind::null ? v : nullptr;
}
const Value* field(const Value& object, std::string_view key, Value::Kind kind, const char* why) {
  const Value* v = field(object, key);
  if (v && v->kind != kind) throw BadField{why};
  return v;
}
bool one_of(std::string_view name, std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), name) != names.end(); }

std::string backend_name(std::string name) {
  name = lower(std::move(name));
  if (one_of(name, {"gpu", "nvidia", "nv"})) return "cuda";
  if (one_of(name, {"x86", "host"})) return "cpu";
  if (one_of(name, {"hip", "amd"})) return "rocm";
  return name;
}

std::string dtype_name(std::string name) {
  name = lower(std::move(name));
  if (name.starts_with("torch.")) name.erase(0, 6);
  static const std::map<std::string_view, const char*> aliases = {
      {"f32", "float32"}, {"fp32", "float32"}, {"float", "float32"}, {"f64", "float64"}, {"fp64", "float64"}, {"double", "float64"}, {"f16", "float16"},
      {"fp16", "float16"}, {"half", "float16"}, {"bf16", "bfloat16"}, {"i8", "int8"}, {"char", "int8"}, {"i32", "int32"}, {"int", "int32"},
      {"i64", "int64"}, {"long", "int64"}, {"u8", "uint8"}, {"byte", "uint8"}, {"boolean", "bool"}};
  const auto alias = aliases.find(name);
  return alias == aliases.end() ? name : alias->second;
}

std::string device_name(std::string name) {
  name = lower(std::move(name));
  if (name == "cuda" || name == "gpu") return "cuda:0";
  if (name == "cpu:0") return "cpu";
  if (name.starts_with("gpu:")) return "cuda:" + name.substr(4);
  return name;
}

bool is_symbol(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

using Symbols = std::map<std::string, std::size_t, std::less<>>;
constexpr std::uint64_t two_to_62 = std::uint64_t{1} << 62;

// Nothing where the strides equal the contiguous ones wherever they matter. Only for shapes without symbols.
void put_stride(std::string& out, const Value& stride, const std::vector<std::uint64_t>& shape) {
  if (stride.items.size() != shape.size()) throw BadField{"stride has another length than shape"};
  std::vector<std::uint64_t> given;
  for (const Value& item : stride.items) {
    const auto entry = integer(item, two_to_62);
    if (!entry) throw BadField{"a stride is no integer in 0 .. 2^62"};
    given.push_back(*entry);
  }
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return;
  bool contiguous = true;
  std::uint64_t wanted = 1;
  for (std::size_t d = shape.size(); d-- > 0; wanted *= shape[d])
    if (shape[d] != 1 && given[d] != wanted) contiguous = false;
  if (contiguous) return;
  out += "stride[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) out += "*";
    else put_integer(out, given[d]);
  }
  out += ']';
}

void put_tensor(std::string& out, const Value& tensor, Symbols& symbols) {
  if (tensor.kind != Value::Kind::object) throw BadField{"an input is no object"};
  const Value* shape = find(tensor, "shape");
  if (!shape || shape->kind != Value::Kind::array) throw BadField{"an input has no array 'shape'"};
  std::vector<std::uint64_t> sizes;
  bool symbolic = false;
  out += "{shape[";
  for (const Value& item : shape->items) {
    if (const auto size = integer(item, (std::uint64_t{1} << 31) - 1)) {
      sizes.push_back(*size);
      put_integer(out, *size);
    } else if (item.kind == Value::Kind::string && is_symbol(item.text)) {
      symbolic = true;
      out.append("$").append(std::to_string(symbols.try_emplace(item.text, symbols.size()).first->second)).append(";");
    } else {
      throw BadField{"a size is neither an integer in 0 .. 2^31-1 nor a symbol"};
    }
  }
  out += ']';
  if (!symbolic) {
    std::uint64_t product = 1;
    for (const std::uint64_t size : sizes) {
      if (size > 1 && product > two_to_62 / size) throw BadField{"the product of the sizes is above 2^62"};
      product *= std::max<std::uint64_t>(1, size);
    }
  }
  if (const Value* dtype = field(tensor, "dtype", Value::Kind::string, "dtype is no string"))
    if (const std::string name = dtype_name(dtype->text); name != "float32") out += "dtype", put_string(out, name);
  if (const Value* stride = field(tensor, "stride", Value::Kind::array, "stride is no array")) {
    if (symbolic) throw BadField{"stride beside a symbolic shape"};
    put_stride(out, *stride, sizes);
  }
  if (const Value* device = field(tensor, "device", Value::Kind::string, "device is no string"))
    if (const std::string name = device_name(device->text); name != "cuda:0") out += "device", put_string(out, name);
  if (const Value* grad = field(tensor, "requires_grad", Value::Kind::boolean, "requires_grad is no boolean"))
    if (grad->boolean) out += "grad";
  for (const Member& m : tensor.members)
    if (!one_of(m.key, {"shape", "dtype", "stride", "device", "requires_grad"})) put_string(out, m.key), put_value(out, m.value);
  out += '}';
}

bool is_flag_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && plain(name[0]) && !name.starts_with("no-") && std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-'; });
}

void put_flags(std::string& out, const Value& flags) {
  const std::string yes = "t", no = "f";  // a text value is "=" and the text
  std::map<std::string, std::string> settings;
  for (const Value& entry : flags.items) {
    if (entry.kind != Value::Kind::string) throw BadField{"a flag is no string"};
    std::string name = entry.text, setting = yes;
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      const std::string text = name.substr(equals + 1), small = lower(text);
      setting = one_of(small, {"true", "on", "yes"}) ? yes : one_of(small, {"false", "off", "no"}) ? no : "=" + text;
      name.resize(equals);
    } else if (name.starts_with("no-")) {
      name.erase(0, 3);
      setting = no;
    }
    if (!is_flag_name(name)) throw BadField{"a flag is neither name, no-name nor name=value"};
    settings[name] = setting;
  }
  const std::map<std::string, std::string> defaults = {{"cse", yes}, {"fast-math", no}, {"debug", no}, {"bounds-check", no}};
  std::erase_if(settings, [&](const auto& entry) {
    const auto usual = defaults.find(entry.first);
    return usual != defaults.end() && usual->second == entry.second;
  });
  if (settings.empty()) return;
  out += "flags[";
  for (const auto& [name, setting] : settings) put_string(out, name), put_string(out, setting);
  out += ']';
}

std::string signature(const Value& document) {
  std::string out;
  const Value* op = find(document, "op");
  if (!op || op->kind != Value::Kind::string || op->text.empty()) throw BadField{"op is no string of at least one character"};
  put_string(out, op->text);
  if (const Value* backend = field(document, "backend", Value::Kind::string, "backend is no string"))
    if (const std::string name = backend_name(backend->text); name != "cuda") out += "backend", put_string(out, name);
  if (const Value* inputs = field(document, "inputs", Value::Kind::array, "inputs is no array"); inputs && !inputs->items.empty()) {
    Symbols symbols;
    out += "inputs[";
    for (const Value& tensor : inputs->items) put_tensor(out, tensor, symbols);
    out += ']';
  }
  if (const Value* attrs = field(document, "attrs", Value::Kind::object, "attrs is no object")) {
    std::string members;
    for (const Member& m : attrs->members)
      if (m.value.kind != Value::Kind::null) put_string(members, m.key), put_value(members, m.value);
    if (!members.empty()) out.append("attrs{").append(members).append("}");
  }
  if (const Value* passes = field(document, "passes", Value::Kind::array, "passes is no array"); passes && !passes->items.empty()) {
    out += "passes[";
    for (const Value& pass : passes->items) {
      if (pass.kind != Value::Kind::string) throw BadField{"a pass is no string"};
      put_string(out, pass.text);
    }
    out += ']';
  }
  if (const Value* flags = field(document, "flags", Value::Kind::array, "flags is no array")) put_flags(out, *flags);
  if (const Value* level = field(document, "opt_level")) {
    const auto value = integer(*level, 3);
    if (!value) throw BadField{"opt_level is no integer in 0 .. 3"};
    if (*value != 2) out += "opt_level", put_integer(out, *value);
  }
  for (const char* name : {"deterministic", "dynamic"})
    if (const Value* value = field(document, name, Value::Kind::boolean, "deterministic or dynamic is no boolean"); value && value->boolean) out += name;
  out += '|';
  for (const Member& m : document.members)
    if (!one_of(m.key, {"op", "backend", "inputs", "attrs", "passes", "flags", "opt_level", "deterministic", "dynamic", "request_id", "timestamp", "user", "trace_id",
                        "priority"}))
      put_string(out, m.key), put_value(out, m.value);
  return out;
}

}  // namespace

Reading read(std::string_view document) {
  try {
    return {Fault::none, 0, "", signature(Parser(document).document())};
  } catch (const BadDocument& bad) {
    return {Fault::bad_document, bad.position, bad.why, ""};
  } catch (const BadField& bad) {
    return {Fault::bad_field, 0, bad.why, ""};
  }
}

Reading read_syntax(std::string_view document) {
  try {
    Parser(document).document();
    return {};
  } catch (const BadDocument& bad) {
    return {Fault::bad_document, bad.position, bad.why, ""};
  }
}

Rejected canonical_digests(std::string_view documents, View<const std::int64_t, 1> offsets, View<std::uint8_t, 2> digest) {
  const std::int64_t count = digest.extent(0);
  std::vector<XXH128_canonical_t> digests(static_cast<std::size_t>(count));
  std::optional<Rejection> bad_field;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string_view document = documents.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
    const Reading reading = read(document);
    if (reading.fault == Fault::bad_document)
      return reject("bad_document", "doc_offsets", i, std::to_string(offsets[i]), "document " + std::to_string(i) + ", byte " + std::to_string(reading.position) + ": " + reading.why);
    if (reading.fault == Fault::bad_field && !bad_field)
      bad_field = reject("bad_field", "doc_offsets", i, std::to_string(offsets[i]), "document " + std::to_string(i) + ": " + reading.why);
    XXH128_canonicalFromHash(&digests[static_cast<std::size_t>(i)], XXH3_128bits(reading.signature.data(), reading.signature.size()));
  }
  if (bad_field) return bad_field;
  if (count > 0) std::memcpy(digest.data(), digests.data(), digests.size() * 16);
  return std::nullopt;
}

}  // namespace faibench::compile_cache_key_canon::reference
