// Makes requests as values first, then writes each several ways.
#include "kernels/compiler/compile_cache_key_canon/requests.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace faibench::compile_cache_key_canon {
namespace {

using std::string_view;

// Every name with all its spellings, the canonical one first.
struct Name {
  std::vector<string_view> spellings;
};
const std::vector<Name> backends = {{{"cuda", "gpu", "GPU", "NV", "nvidia", "Cuda"}}, {{"cpu", "CPU", "x86", "host", "Host"}}, {{"rocm", "hip", "amd", "AMD"}}, {{"xla", "XLA"}}, {{"metal", "Metal"}}};
const std::vector<Name> dtypes = {{{"float32", "f32", "fp32", "float", "FLOAT", "torch.float32", "Torch.Float32"}},
                                  {{"float16", "f16", "fp16", "half", "FP16", "torch.float16"}},
                                  {{"bfloat16", "bf16", "BFloat16", "torch.bfloat16"}},
                                  {{"int8", "i8", "char", "INT8"}},
                                  {{"int32", "i32", "int", "torch.int"}},
                                  {{"int64", "i64", "long", "torch.int64", "Long"}},
                                  {{"uint8", "u8", "byte"}},
                                  {{"float8_e4m3", "torch.float8_e4m3", "Float8_E4M3"}}};
const std::vector<Name> devices = {{{"cuda:0", "cuda", "gpu", "gpu:0", "GPU:0", "CUDA"}}, {{"cuda:1", "gpu:1", "CUDA:1"}}, {{"cpu", "cpu:0", "CPU"}}};
constexpr string_view operators[] = {"matmul", "softmax", "rmsnorm", "rope", "attention", "layer_norm", "gelu", "conv2d", "embedding", "fused_swiglu"};
constexpr string_view pass_names[] = {"tile", "fuse", "vectorize", "unroll", "inline", "dce", "hoist", "schedule"};
constexpr string_view attr_names[] = {"axis", "eps", "scale", "mask", "tile", "causal", "groups", "window"};
constexpr string_view flag_names[] = {"unroll=4", "lto=thin", "autotune", "no-fma", "inline=aggressive", "max-regs=128"};
constexpr std::uint64_t sizes[] = {1, 8, 64, 128, 256, 1024, 4096, 32, 80, 3};
// One row names all symbols of a document.
constexpr string_view symbol_names[][3] = {{"s0", "s1", "s2"}, {"B", "N", "K"}, {"batch", "seq", "_m1"}, {"s1", "s0", "n"}};

template <class T, std::size_t N>
const T& pick(Random& random, const T (&list)[N]) { return list[random.below(N)]; }

struct Size {
  bool symbol;
  std::uint64_t value;  // or the symbol's number
};
struct InputTensor {
  std::vector<Size> shape;
  std::vector<std::uint64_t> stride;  // empty: contiguous
  std::size_t dtype = 0, device = 0;
  bool requires_grad = false;
};
struct Attribute {
  enum class Kind { number, text, truth, list, range };
  string_view name;
  Kind kind = Kind::number;
  std::uint64_t number = 0;  // in hundredths
};
struct Request {
  std::size_t op = 0, backend = 0, opt_level = 2;
  std::vector<InputTensor> inputs;
  std::vector<Attribute> attrs;
  std::vector<string_view> passes;
  std::vector<string_view> flags;  // settings that are no defaults
  bool deterministic = false, dynamic = false, cse = true, fast_math = false;
  bool unicode_note = false;
};

std::vector<std::uint64_t> contiguous(const std::vector<Size>& shape) {
  std::vector<std::uint64_t> stride(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) stride[d - 1] = stride[d] * std::max<std::uint64_t>(1, shape[d].value);
  return stride;
}

InputTensor random_tensor(Random& random) {
  InputTensor t;
  bool symbols = random.chance(0.2);
  const std::int64_t rank = random.between(1, 4);
  for (std::int64_t d = 0; d < rank; ++d) {
    const bool symbol = symbols && random.chance(0.5);
    t.shape.push_back({symbol, symbol ? static_cast<std::uint64_t>(random.below(3)) : pick(random, sizes)});
  }
  symbols = std::any_of(t.shape.begin(), t.shape.end(), [](const Size& s) { return s.symbol; });
  if (!symbols && rank >= 2 && random.chance(0.25)) {  // padded rows
    t.stride = contiguous(t.shape);
    for (std::size_t d = 0; d + 1 < t.stride.size(); ++d) t.stride[d] += 64;
    if (t.shape[0].value == 1) t.stride.clear();
  }
  t.dtype = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(dtypes.size())));
  t.device = random.chance(0.7) ? 0 : static_cast<std::size_t>(random.below(3));
  t.requires_grad = random.chance(0.1);
  return t;
}

// No other base request has this `number`: it is the first size of the first input.
Request random_request(Random& random, std::uint64_t number) {
  Request r;
  r.op = static_cast<std::size_t>(random.below(std::size(operators)));
  r.backend = random.chance(0.4) ? 0 : static_cast<std::size_t>(random.below(static_cast<std::int64_t>(backends.size())));
  r.opt_level = random.chance(0.5) ? 2 : static_cast<std::size_t>(random.below(4));
  r.inputs.push_back({{{false, number + 2}, {false, sizes[random.between(1, std::size(sizes) - 1)]}}, {}, static_cast<std::size_t>(random.below(3)), 0, false});
  for (std::int64_t more = random.between(2, 5); more > 0; --more) r.inputs.push_back(random_tensor(random));
  std::vector<std::int64_t> order = random.permutation(std::size(attr_names));
  const std::int64_t attributes = random.between(4, 8);
  for (std::int64_t i = 0; i < attributes; ++i) {
    static constexpr std::uint64_t numbers[] = {100, 50, 200, 0, 1600, 12};
    r.attrs.push_back({attr_names[order[static_cast<std::size_t>(i)]], static_cast<Attribute::Kind>(random.below(5)), pick(random, numbers)});
  }
  order = random.permutation(std::size(pass_names));
  for (std::int64_t i = random.between(0, 4); i > 0; --i) r.passes.push_back(pass_names[order[static_cast<std::size_t>(i)]]);
  order = random.permutation(std::size(flag_names));
  for (std::int64_t i = random.between(0, 3); i > 0; --i) r.flags.push_back(flag_names[order[static_cast<std::size_t>(i)]]);
  r.deterministic = random.chance(0.2);
  r.dynamic = random.chance(0.2);
  r.cse = !random.chance(0.2);
  r.fast_math = random.chance(0.3);
  r.unicode_note = random.chance(0.05);
  return r;
}

// Changes `base` so that it has something to differ in, and returns what differs in just that.
Request near_twin(Random& random, Request& base) {
  switch (random.below(4)) {
    case 0: {  // one stride
      base.inputs[0].stride.clear();
      Request twin = base;
      twin.inputs[0].stride = contiguous(base.inputs[0].shape);
      twin.inputs[0].stride[random.chance(0.5) ? 0 : 1] += 1;
      return twin;
    }
    case 1: {  // one pass swapped
      if (base.passes.size() < 2) base.passes = {"tile", "fuse"};
      Request twin = base;
      std::swap(twin.passes[0], twin.passes[1]);
      return twin;
    }
    case 2: {  // 1 against "1" or true
      base.attrs[0].kind = Attribute::Kind::number;
      base.attrs[0].number = 100;
      Request twin = base;
      twin.attrs[0].kind = random.chance(0.5) ? Attribute::Kind::text : Attribute::Kind::truth;
      return twin;
    }
    default: {  // s0,s0 against s0,s1
      base.inputs.push_back({{{true, 0}, {true, 0}}, {}, 0, 0, false});
      Request twin = base;
      twin.inputs.back().shape[1].value = 1;
      // A symbol's number is by first use: 1 here may be a symbol seen earlier, or a new one; 0 and 1 differ in either case.
      return twin;
    }
  }
}

// Writes one request one way. All choices come from `random`.
class Writer {
 public:
  Writer(Random random, std::string& out) : random_(random), out_(out) {}

  void write(const Request& r, std::uint64_t request_id) {
    symbols_ = symbol_names[few(4)];
    enum Field { op, backend, inputs, attrs, passes, flags, opt_level, deterministic, dynamic, note, id, noise };
    std::array<int, 12> order = {op, backend, inputs, attrs, passes, flags, opt_level, deterministic, dynamic, note, id, noise};
    shuffle(order.data(), order.size());
    open('{');
    for (const int field : order) switch (field) {
        case op: key("op"), string(operators[r.op]), gap(); break;
        case backend: name("backend", backends, r.backend); break;
        case inputs:
          key("inputs"), open('[');
          for (const InputTensor& t : r.inputs) next(), tensor(t);
          close(']');
          break;
        case attrs: attributes(r.attrs); break;
        case passes:
          if (r.passes.empty() && absent("passes")) break;
          key("passes"), open('[');
          for (const string_view pass : r.passes) next(), string(pass), gap();
          close(']');
          break;
        case flags: settings(r); break;
        case opt_level:
          if (r.opt_level == 2 && absent("opt_level")) break;
          key("opt_level"), number(r.opt_level * 100);
          break;
        case deterministic: truth("deterministic", r.deterministic); break;
        case dynamic: truth("dynamic", r.dynamic); break;
        case note:
          if (r.unicode_note) key("gemm_note"), out_ += few(2) ? "\"Ma\xc3\x9f \xf0\x9f\x9a\x80\"" : "\"Ma\\u00df \\ud83d\\uDE80\"", gap();
          break;
        case id: identity(request_id); break;
        case noise: ignored(); break;
      }
    close('}');
  }

 private:
  // `bits` random bits, from a buffered word.
  std::uint32_t bits(int count) {
    if (left_ < count) word_ = random_.u64(), left_ = 64;
    const auto taken = static_cast<std::uint32_t>(word_ & ((1u << count) - 1));
    word_ >>= count;
    left_ -= count;
    return taken;
  }
  // In 0 .. n-1 for small n; nearly even.
  std::size_t few(std::size_t n) { return bits(12) * n >> 12; }
  template <class T>
  void shuffle(T* items, std::size_t n) {
    for (; n > 1; --n) std::swap(items[n - 1], items[few(n)]);
  }

  void gap() {
    static constexpr string_view gaps[] = {"", "", " ", " ", "\n", "\n", "\r\n", "\t "};
    out_ += gaps[bits(3)];
  }
  void open(char bracket) { out_ += bracket, first_ = true, gap(); }
  void close(char bracket) { out_ += bracket, first_ = false, gap(); }
  void next() {
    if (!first_) out_ += ',', gap();
    first_ = false;
  }
  void string(string_view s) {
    static constexpr char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    out_ += '"';
    const std::uint32_t escaped = bits(1) ? ~0u : bits(5);  // one character of half of the strings, where they are as long as that
    for (std::uint32_t i = 0; i < s.size(); ++i) {
      const char c = s[i];
      if (i == escaped) {
        const char* hex = bits(1) ? lower : upper;
        out_ += "\\u00", out_ += hex[c >> 4], out_ += hex[c & 15];
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }
  void key(string_view name) { next(), string(name), gap(), out_ += ':', gap(); }
  void plain(std::uint64_t n) {
    char digits[20];
    int at = 20;
    do digits[--at] = static_cast<char>('0' + n % 10), n /= 10;
    while (n > 0);
    out_.append(digits + at, static_cast<std::size_t>(20 - at));
  }
  void number(std::uint64_t hundredths) {
    const std::uint64_t whole = hundredths / 100, rest = hundredths % 100;
    const std::uint32_t form = bits(3);
    if (rest != 0) {
      if (form < 2) plain(hundredths), out_ += "e-2";
      else if (form < 4) plain(hundredths * 10), out_ += "E-03";
      else plain(whole), out_ += '.', out_ += static_cast<char>('0' + rest / 10), out_ += static_cast<char>('0' + rest % 10);
    } else {
      plain(whole);
      static constexpr string_view tails[] = {"", "", "", ".0", ".000", "E0", "e+00", "0e-1"};
      out_ += whole == 0 && form == 7 ? "e-1" : tails[form];
    }
    gap();
  }
  // Whether a default is left away; it may also be written as null. Otherwise the caller writes it out.
  bool absent(string_view name) {
    const std::uint32_t how = bits(2);
    if (how == 0) key(name), out_ += "null", gap();
    return how < 3;
  }
  void name(string_view field, const std::vector<Name>& names, std::size_t which) {
    if (which == 0 && absent(field)) return;
    const auto& spellings = names[which].spellings;
    key(field), string(spellings[few(spellings.size())]), gap();
  }
  void truth(string_view field, bool value) {
    if (!value && absent(field)) return;
    key(field), out_ += value ? "true" : "false", gap();
  }

  void tensor(const InputTensor& t) {
    enum Field { shape, dtype, stride, device, grad };
    std::array<int, 5> order = {shape, dtype, stride, device, grad};
    shuffle(order.data(), order.size());
    open('{');
    for (const int field : order) switch (field) {
        case shape:
          key("shape"), open('[');
          for (const Size& size : t.shape) {
            next();
            if (size.symbol) string(symbols_[size.value]), gap();
            else number(size.value * 100);
          }
          close(']');
          break;
        case dtype: name("dtype", dtypes, t.dtype); break;
        case stride: strides(t); break;
        case device: name("device", devices, t.device); break;
        case grad: truth("requires_grad", t.requires_grad); break;
      }
    close('}');
  }

  void strides(const InputTensor& t) {
    const bool symbols = std::any_of(t.shape.begin(), t.shape.end(), [](const Size& s) { return s.symbol; });
    if (t.stride.empty() && (symbols || bits(1))) return;
    const std::vector<std::uint64_t> stride = t.stride.empty() ? contiguous(t.shape) : t.stride;
    key("stride"), open('[');
    for (std::size_t d = 0; d < stride.size(); ++d) next(), number(100 * (t.shape[d].value == 1 ? bits(4) : stride[d]));
    close(']');
  }

  void attributes(const std::vector<Attribute>& attrs) {
    std::array<std::size_t, 9> order{};
    for (std::size_t i = 0; i <= attrs.size(); ++i) order[i] = i;
    shuffle(order.data(), attrs.size() + 1);
    key("attrs"), open('{');
    for (std::size_t i = 0; i <= attrs.size(); ++i) {
      if (order[i] == attrs.size()) {
        if (bits(1)) key("unused"), out_ += "null", gap();
        continue;
      }
      const Attribute& a = attrs[order[i]];
      key(a.name);
      switch (a.kind) {
        case Attribute::Kind::number: number(a.number); break;
        case Attribute::Kind::text: string("1"), gap(); break;
        case Attribute::Kind::truth: out_ += "true", gap(); break;
        case Attribute::Kind::list:
          open('[');
          for (std::uint64_t n = 0; n < 3; ++n) next(), number(a.number + 100 * n);
          close(']');
          break;
        case Attribute::Kind::range: {
          const bool swapped = bits(1);
          open('{');
          for (int n = 0; n < 2; ++n) {
            const bool low = (n == 0) != swapped;
            key(low ? "lo" : "hi"), number(low ? a.number : 409600);
          }
          close('}');
        }
      }
    }
    close('}');
  }

  // The settings in any order; before them, perhaps, some that they override; defaults anywhere.
  void settings(const Request& r) {
    std::array<string_view, 12> list;
    std::size_t count = 0;
    for (const string_view flag : r.flags) list[count++] = flag;
    static constexpr string_view no_cse[] = {"no-cse", "cse=off", "cse=FALSE"}, fast[] = {"fast-math", "fast-math=on", "fast-math=Yes"};
    static constexpr string_view usual[] = {"no-debug", "debug=off", "bounds-check=No", "no-bounds-check"};
    if (!r.cse) list[count++] = no_cse[few(3)];
    else if (bits(2) == 0) list[count++] = "cse";
    if (r.fast_math) list[count++] = fast[few(3)];
    else if (bits(2) == 0) list[count++] = "no-fast-math";
    const bool usual_written = bits(1);
    const std::size_t which = few(4);
    if (usual_written) list[count++] = usual[which];
    if (count == 0 && absent("flags")) return;
    shuffle(list.data(), count);
    key("flags"), open('[');
    if (usual_written && bits(1)) next(), string(which < 2 ? "debug" : "bounds-check"), gap();
    if (!r.cse && bits(1)) next(), string("cse=yes"), gap();
    for (std::size_t i = 0; i < count; ++i) next(), string(list[i]), gap();
    close(']');
  }

  void identity(std::uint64_t id) {
    static constexpr char hex[] = "0123456789abcdef";
    key("request_id");
    out_ += "\"req-";
    for (int shift = 60; shift >= 0; shift -= 4) out_ += hex[id >> shift & 15];
    out_ += '"';
    gap();
  }
  void ignored() {
    switch (few(6)) {
      case 0: key("timestamp"), plain(1700000000 + bits(24)), out_ += ".5", gap(); break;
      case 1: key("user"), out_ += bits(1) ? "\"J\xc3\xb6rg\"" : "\"li\"", gap(); break;
      case 2: key("trace_id"), open('{'), key("span"), open('['), next(), number(bits(12)), close(']'), close('}'); break;
      case 3: key("priority"), out_ += bits(1) ? "null" : "true", gap(); break;
      default: break;
    }
  }

  Random random_;
  std::string& out_;
  std::uint64_t word_ = 0;
  int left_ = 0;
  bool first_ = true;
  const string_view* symbols_ = symbol_names[0];
};

}  // namespace

TensorMap batch_of(const std::vector<std::string>& documents) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::string& document : documents) offsets.push_back(offsets.back() + static_cast<std::int64_t>(document.size()));
  TensorMap inputs;
  Tensor& bytes = inputs.add("doc_bytes", Tensor(Dtype::u8, {offsets.back()}));
  for (std::size_t i = 0; i < documents.size(); ++i)
    if (!documents[i].empty()) std::memcpy(bytes.data() + offsets[i], documents[i].data(), documents[i].size());
  inputs.add("doc_offsets", Tensor::of<std::int64_t>({static_cast<std::int64_t>(offsets.size())}, offsets));
  return inputs;
}

TensorMap random_requests(Random& random, std::int64_t signatures, std::int64_t spellings) {
  const std::int64_t twins = signatures / 4, bases = signatures - twins, count = signatures * spellings;
  const Random source(random.u64());
  std::vector<std::string> documents(static_cast<std::size_t>(count));
  const std::uint64_t first_id = random.u64();
  const std::vector<std::int64_t> number = random.permutation(bases), place = random.permutation(count);
  // Base b < twins also has a twin; every document is a function of the base alone, so threads do not matter.
#pragma omp parallel for schedule(dynamic, 64) if (bases > 64)
  for (std::int64_t b = 0; b < bases; ++b) {
    Random own = source.stream(static_cast<std::uint64_t>(b));
    Request base = random_request(own, static_cast<std::uint64_t>(number[static_cast<std::size_t>(b)]));
    std::array<Request, 2> pair;
    if (b < twins) pair[1] = near_twin(own, base);
    pair[0] = base;
    for (std::int64_t t = 0; t < (b < twins ? 2 : 1); ++t)
      for (std::int64_t k = 0; k < spellings; ++k) {
        const std::int64_t serial = (t == 0 ? b : bases + b) * spellings + k;
        std::string& document = documents[static_cast<std::size_t>(place[static_cast<std::size_t>(serial)])];
        document.reserve(1600);
        Writer(own.stream(static_cast<std::uint64_t>(serial)), document).write(pair[static_cast<std::size_t>(t)], first_id + static_cast<std::uint64_t>(serial) * 0x9E3779B97F4A7C15u);
      }
  }
  return batch_of(documents);
}

}  // namespace faibench::compile_cache_key_canon
