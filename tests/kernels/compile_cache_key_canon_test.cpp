// compile_cache_key_canon: every rule of the contract as pairs of documents, mutated documents, and all variants over cases, random batches and case files.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/compiler/compile_cache_key_canon/compile_cache_key_canon.h"
#include "kernels/compiler/compile_cache_key_canon/reference.h"
#include "kernels/compiler/compile_cache_key_canon/requests.h"
#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench {
namespace tasks {
const Task& compile_cache_key_canon();
}
namespace {

using namespace compile_cache_key_canon;
using Digest = std::array<std::uint8_t, 16>;
using Function = Rejected (*)(std::string_view, View<const std::int64_t, 1>, View<std::uint8_t, 2>);

const Task& task() { return tasks::compile_cache_key_canon(); }

// The digest of a batch of one, or the code of the rejection.
struct Answer {
  std::string code;
  Digest digest{};
};
Answer answer(Function variant, std::string_view document) {
  const std::int64_t offsets[] = {0, static_cast<std::int64_t>(document.size())};
  Answer a;
  if (const Rejected rejected = variant(document, {offsets, {2}}, {a.digest.data(), {1, 16}})) {
    a.code = rejected->code;
    EXPECT_NE(rejected->message.find("document 0"), std::string::npos) << rejected->message;
  }
  return a;
}

enum class Means { same, different, bad_document, bad_field };
struct Row {
  Means means;
  std::string first, second;  // a rejected text stands first, alone
};
// Members beside "op".
std::string body(std::string_view members) { return R"({"op":"f",)" + std::string(members) + "}"; }
std::string tensors(std::string_view inputs) { return body(R"("inputs":[)" + std::string(inputs) + "]"); }
std::string attr(std::string_view value) { return body(R"("attrs":{"a":)" + std::string(value) + "}"); }
std::string flags(std::string_view list) { return body(R"("flags":[)" + std::string(list) + "]"); }
std::string shaped(std::string_view shape, std::string_view more = "") { return tensors(R"({"shape":)" + std::string(shape) + std::string(more) + "}"); }
const std::string plain = R"({"op":"f"})";

std::vector<Row> rows() {
  std::vector<Row> list;
  const auto same = [&](std::string a, std::string b) { list.push_back({Means::same, std::move(a), std::move(b)}); };
  const auto differ = [&](std::string a, std::string b) { list.push_back({Means::different, std::move(a), std::move(b)}); };
  const auto document = [&](std::string a) { list.push_back({Means::bad_document, std::move(a), ""}); };
  const auto field = [&](std::string a) { list.push_back({Means::bad_field, std::move(a), ""}); };

  // Rule 1: JSON.
  same(plain, " {\t\"op\"\r\n : \"f\" } \n");
  same(plain, R"({"\u006f\u0070":"\u0066"})");
  same(R"({"op":"A/"})", R"({"op":"\u0041\/"})");
  same(body(R"("x":1,"y":2)"), body(R"("y":2,"x":1)"));
  same(R"({"x":{"b":[{"d":1,"c":2}],"a":0},"op":"f"})", R"({"op":"f","x":{"a":0,"b":[{"c":2,"d":1}]}})");
  same(body("\"x\":\"\xc3\xa9\""), body(R"("x":"\u00E9")"));
  same(body("\"x\":\"\xf0\x9f\x9a\x80\""), body(R"("x":"\ud83d\ude80")"));
  same(body(R"("x":"\b\f\n\r\t\"\\")"), body(R"("x":"\u0008\u000c\u000A\u000D\u0009\u0022\u005c")"));
  same(body(R"("x\u0000":1)"), body(R"("\u0078\u0000":1)"));
  differ(body("\"x\":\"\xc3\xa9\""), body("\"x\":\"e\xcc\x81\""));
  differ(body(R"("x":"a")"), body(R"("x":"A")"));
  differ(body(R"("x":[1,2])"), body(R"("x":[2,1])"));
  differ(body(R"("x":"")"), body(R"("x":"\u0000")"));
  differ(body(R"("x":"/")"), body(R"("x":"\\/")"));
  differ(body(R"("x\u0000":1)"), body(R"("x":1)"));
  for (const char* text : {"", " ", "[]", "\"f\"", "1", "null", "{", "}", R"({"op":"f",})", R"({,"op":"f"})", R"({"op":"f"},)", R"({"op":"f"} x)", R"({"op":"f"}})", R"({"op":"f"]})", R"({"op" "f"})",
                           R"({"op"::"f"})", R"({"op":})", R"({:"f"})", R"({op:"f"})", R"({"op":'f'})", R"({"op":"f})", R"({"op":"f\"})", R"({"op":"\u12"})", R"({"op":"\uD800"})",
                           R"({"op":"\uD800x"})", R"({"op":"\uD800\n"})", R"({"op":"\uD800\uD800"})", R"({"op":"\uDC00"})", R"({"op":"\u00G0"})", R"({"op":"\a"})", R"({"op":"\U0041"})", "{\"op\":\"\t\"}",
                           "{\"op\":\"\x1f\"}", "{\"op\":\"\x80\"}", "{\"op\":\"\xc0\x80\"}", "{\"op\":\"\xc1\xbf\"}", "{\"op\":\"\xe0\x9f\xbf\"}", "{\"op\":\"\xed\xa0\x80\"}", "{\"op\":\"\xf0\x8f\xbf\xbf\"}",
                           "{\"op\":\"\xf4\x90\x80\x80\"}", "{\"op\":\"\xf5\x80\x80\x80\"}", "{\"op\":\"\xff\"}", "{\"op\":\"\xc3\"}", "{\"op\":\"\xe2\x82\"}", "{\"op\":\"\xf0\x9f\x9a\"}", "\xef\xbb\xbf{\"op\":\"f\"}",
                           "{\"op\":\"f\"}\xc2\xa0", "{\v\"op\":\"f\"}", R"({"op":"f"/*c*/})", R"({"op":"f"}//c)", R"({"op":"f","x":[1,]})", R"({"op":"f","x":[,1]})", R"({"op":"f","x":[1 2]})",
                           R"({"op":"f","x":[1}})", R"({"op":"f","x":{"a":1]})", R"({"op":"f","x":{"a"}})", R"({"op":"f","x":{1:2}})", R"({"op":"f","x":[)", R"({"op":"f","x":)"})
    document(text);
  document(body(R"("x":1,"x":1)"));
  document(R"({"op":"f","op":"f"})");
  document(body(R"("user":1,"us\u0065r":2)"));
  document(body(R"("attrs":{"a":null,"a":1})"));
  document(body(R"("x":[{"a":{"":1,"":1}}])"));
  document(tensors(R"({"shape":[],"shape":[]})"));
  document(tensors(R"({"shape":[],"x":1,"\u0078":2})"));
  document(body(R"("x":)" + std::string(64, '[') + std::string(64, ']')));
  same(body(R"("user":)" + std::string(63, '[') + std::string(63, ']')), plain);

  // Rule 2: numbers.
  same(attr("1"), attr("1.0"));
  same(attr("1"), attr("10e-1"));
  same(attr("1"), attr("0.001E+3"));
  same(attr("-0"), attr("0"));
  same(attr("0"), attr("0.000e9999"));
  same(attr("0.1"), attr("1e-1"));
  same(attr("-1.50"), attr("-15e-1"));
  same(attr("1e400"), attr("10.0e399"));
  same(attr("123456789012345678901234567890"), attr("1.2345678901234567890123456789e29"));
  same(attr("12345678901234567890"), attr("1234567890123456789e1"));
  same(attr("0.00000000000000000000000000000000000001"), attr("1e-38"));
  same(attr("100000000000000000000000000000"), attr("1e29"));
  same(attr("1e" + std::string(61, '0') + "1"), attr("10"));
  differ(attr("9007199254740993"), attr("9007199254740992"));
  differ(attr("0.1"), attr("0.1000000000000000055511151231257827"));
  differ(attr("1e9999"), attr("1e9998"));
  differ(attr("1"), attr("-1"));
  differ(attr("1"), attr("\"1\""));
  differ(attr("1"), attr("true"));
  differ(attr("0"), attr("false"));
  differ(attr("\"true\""), attr("true"));
  differ(attr("18446744073709551616"), attr("0"));
  differ(attr("12345678901234567890123"), attr("-12345678901234567890123"));
  differ(attr("12345678901234567890123"), attr("12345678901234567890124"));
  for (const char* number : {"01", "-", "-01", "+1", ".5", "1.", "1.e1", "1e", "1e+", "1E-", "0x1", "1_0", "NaN", "Infinity", "-Infinity", "1e10000", "1e-10000", "0e10000", "1a", "1\"a\"", "true1", "True", "nul", "nulll"})
    document(attr(number));
  document(attr(std::string(65, '1')));
  document(attr("1e" + std::string(63, '0')));
  same(attr(std::string(64, '1')), attr(" " + std::string(64, '1') + "\n"));

  // Rule 3: the fields of the top.
  field("{}");
  field(R"({"op":null})");
  field(R"({"op":""})");
  field(R"({"op":["f"]})");
  differ(R"({"op":"f"})", R"({"op":"F"})");
  for (const char* written : {R"("backend":"cuda")", R"("backend":null)", R"("backend":"GPU")", R"("backend":"nvidia")", R"("backend":"Nv")", R"("inputs":[])", R"("inputs":null)", R"("attrs":{})", R"("attrs":null)",
                              R"("attrs":{"a":null})", R"("passes":[])", R"("passes":null)", R"("flags":[])", R"("flags":null)", R"("opt_level":2)", R"("opt_level":0.2e1)", R"("opt_level":null)",
                              R"("deterministic":false)", R"("deterministic":null)", R"("dynamic":false)", R"("dynamic":null)", R"("request_id":[{}])", R"("timestamp":-1e9)", R"("user":null)", R"("trace_id":"x")",
                              R"("priority":{"a":1})"})
    same(plain, body(written));
  for (const char* written : {R"("backend":"cpu")", R"("backend":"")", R"("backend":"cuda\u0000")", R"("attrs":{"a":{}})", R"("attrs":{"":0})", R"("passes":[""])", R"("opt_level":1)", R"("opt_level":0)",
                              R"("deterministic":true)", R"("dynamic":true)", R"("other":null)", R"("other":{})", R"("Op":"f")", R"("User":1)", R"("":null)"})
    differ(plain, body(written));
  same(body(R"("backend":"x86")"), body(R"("backend":"Host")"));
  same(body(R"("backend":"amd")"), body(R"("backend":"HIP")"));
  same(body(R"("backend":"rocm")"), body(R"("backend":"HIP")"));
  same(body(R"("backend":"TPU")"), body(R"("backend":"tpu")"));
  same(body(R"("backend":"cpu")"), body(R"("backend":"x86")"));
  differ(body("\"backend\":\"\xc3\x89\""), body("\"backend\":\"\xc3\xa9\""));
  differ(body(R"("deterministic":true)"), body(R"("dynamic":true)"));
  differ(body(R"("opt_level":0)"), body(R"("opt_level":1)"));
  same(body(R"("opt_level":-0.0)"), body(R"("opt_level":0)"));
  differ(body(R"("other":null)"), body(R"("other":{})"));
  differ(body(R"("x":{"b":1})"), body(R"("attrs":{"b":1})"));
  differ(body(R"("passes":["a"])"), body(R"("flags":["a"])"));
  differ(body(R"("passes":["a","b"])"), body(R"("passes":["b","a"])"));
  differ(body(R"("passes":["a","a"])"), body(R"("passes":["a"])"));
  differ(body(R"("passes":["ab","c"])"), body(R"("passes":["a","bc"])"));
  for (const char* wrong : {R"("backend":1)", R"("backend":false)", R"("inputs":{})", R"("inputs":"a")", R"("attrs":[])", R"("attrs":0)", R"("passes":{})", R"("passes":[1])", R"("passes":[null])", R"("passes":[["a"]])",
                            R"("flags":"a")", R"("opt_level":4)", R"("opt_level":-1)", R"("opt_level":1.5)", R"("opt_level":"1")", R"("opt_level":true)", R"("opt_level":1e30)", R"("opt_level":12345678901234567890123)",
                            R"("deterministic":0)", R"("deterministic":"true")", R"("dynamic":[])"})
    field(body(wrong));
  document(R"({"op":1,"x":[})");
  document(body(R"("opt_level":9,"y":tru)"));

  // Rule 4: tensors.
  field(tensors("null"));
  field(tensors("[]"));
  field(tensors("{}"));
  for (const char* shape : {"null", "3", "{}", "[-1]", "[1.5]", "[2147483648]", "[null]", "[true]", "[[1]]", "[\"\"]", "[\"1a\"]", "[\"a-b\"]", "[\"a b\"]", "[\"a\\u0000\"]", "[\"\xc3\xa9\"]", "[1e-1]",
                            "[2147483647,2147483647,2]", "[0,2147483647,2147483647,2]", "[1e400]"})
    field(shaped(shape));
  differ(tensors(R"({"shape":[1]},{"shape":[2]})"), tensors(R"({"shape":[2]},{"shape":[1]})"));
  differ(shaped("[1,2]"), tensors(R"({"shape":[1]},{"shape":[2]})"));
  differ(plain, shaped("[]"));
  differ(shaped("[1]"), shaped("[1,1]"));
  same(shaped("[2147483647]"), shaped("[21474836470e-1]"));
  same(shaped("[4,0]"), shaped("[4.0,0e5]"));
  for (const char* name : {"float32", "f32", "FP32", "float", "torch.float", "Torch.F32", "TORCH.FLOAT32"}) same(shaped("[1]"), shaped("[1]", std::string(R"(,"dtype":")") + name + "\""));
  same(shaped("[1]"), shaped("[1]", R"(,"dtype":null)"));
  const char* aliases[][2] = {{"f64", "float64"}, {"fp64", "double"}, {"f16", "float16"}, {"fp16", "half"}, {"half", "float16"}, {"bf16", "bfloat16"}, {"i8", "int8"}, {"char", "int8"}, {"i32", "int32"}, {"int", "int32"},
                              {"i64", "int64"}, {"long", "int64"}, {"u8", "uint8"}, {"byte", "uint8"}, {"boolean", "bool"}, {"Foo", "fOO"}, {"torch.x", "X"}};
  for (const auto& pair : aliases) same(shaped("[1]", std::string(R"(,"dtype":")") + pair[0] + "\""), shaped("[1]", std::string(R"(,"dtype":")") + pair[1] + "\""));
  const char* others[][2] = {{"float16", "bfloat16"}, {"int8", "uint8"}, {"torch.torch.half", "half"}, {"", "float32"}, {"torch.", "torch"}, {"f8", "f16"}, {"f32\\u0000", "f32"}, {"bool", "int8"}, {"float64", "float32"}};
  for (const auto& pair : others) differ(shaped("[1]", std::string(R"(,"dtype":")") + pair[0] + "\""), shaped("[1]", std::string(R"(,"dtype":")") + pair[1] + "\""));
  for (const char* name : {"cuda:0", "cuda", "gpu", "gpu:0", "GPU:0", "CUDA"}) same(shaped("[1]"), shaped("[1]", std::string(R"(,"device":")") + name + "\""));
  same(shaped("[1]", R"(,"device":"gpu:1")"), shaped("[1]", R"(,"device":"CUDA:1")"));
  same(shaped("[1]", R"(,"device":"gpu:")"), shaped("[1]", R"(,"device":"cuda:")"));
  same(shaped("[1]", R"(,"device":"gpu:A b")"), shaped("[1]", R"(,"device":"cuda:a B")"));
  same(shaped("[1]", R"(,"device":"cpu:0")"), shaped("[1]", R"(,"device":"CPU")"));
  same(shaped("[1]", R"(,"device":null)"), shaped("[1]"));
  differ(shaped("[1]", R"(,"device":"cpu:1")"), shaped("[1]", R"(,"device":"cpu")"));
  differ(shaped("[1]", R"(,"device":"cuda:1")"), shaped("[1]"));
  differ(shaped("[1]", R"(,"device":"cuda:00")"), shaped("[1]"));
  differ(shaped("[1]", R"(,"device":"")"), shaped("[1]"));
  differ(shaped("[1]", R"(,"device":"gpu1")"), shaped("[1]", R"(,"device":"cuda1")"));
  differ(shaped("[1]", R"(,"device":"x")"), shaped("[1]", R"(,"dtype":"x")"));
  same(shaped("[1]", R"(,"requires_grad":false)"), shaped("[1]", R"(,"requires_grad":null)"));
  differ(shaped("[1]", R"(,"requires_grad":true)"), shaped("[1]"));
  differ(shaped("[1]", R"(,"layout":null)"), shaped("[1]"));
  same(shaped("[1]", R"(,"a":1,"b":2)"), shaped("[1]", R"(,"b":2,"a":1.0)"));
  differ(shaped("[1]", R"(,"a":1,"b":2)"), shaped("[1]", R"(,"b":1,"a":2)"));
  for (const char* wrong : {R"(,"dtype":1)", R"(,"dtype":["f32"])", R"(,"device":0)", R"(,"device":true)", R"(,"requires_grad":0)", R"(,"requires_grad":"false")", R"(,"stride":1)", R"(,"stride":{})", R"(,"stride":[])",
                            R"(,"stride":[1,1])", R"(,"stride":[-1])", R"(,"stride":[0.5])", R"(,"stride":[null])", R"(,"stride":["s"])", R"(,"stride":[4611686018427387905])"})
    field(shaped("[1]", wrong));
  field(shaped("[\"s\"]", R"(,"stride":[1])"));
  field(tensors(R"({"stride":[1,1],"shape":[2,"s"]})"));
  field(shaped("[0]", R"(,"stride":[1e19])"));
  same(shaped("[\"s\"]", R"(,"stride":null)"), shaped("[\"s\"]"));
  same(shaped("[2,3]"), shaped("[2,3]", R"(,"stride":[3,1])"));
  same(shaped("[2,3]"), tensors(R"({"stride":[30e-1,1.0],"shape":[2,3]})"));
  same(shaped("[2,3]"), shaped("[2,3]", R"(,"stride":null)"));
  same(shaped("[2,1,3]"), shaped("[2,1,3]", R"(,"stride":[3,77,1])"));
  same(shaped("[1]"), shaped("[1]", R"(,"stride":[4611686018427387904])"));
  same(shaped("[]"), shaped("[]", R"(,"stride":[])"));
  same(shaped("[0,3]"), shaped("[0,3]", R"(,"stride":[7,9])"));
  same(shaped("[5,1,2]", R"(,"stride":[4,0,1])"), shaped("[5,1,2]", R"(,"stride":[4,9,1])"));
  same(shaped("[2,3,4]"), shaped("[2,3,4]", R"(,"stride":[12,4,1])"));
  same(shaped("[2147483647,2147483647]"), shaped("[2147483647,2147483647]", R"(,"stride":[2147483647,1])"));
  differ(shaped("[2,3]"), shaped("[2,3]", R"(,"stride":[1,2])"));
  differ(shaped("[2,3]"), shaped("[2,3]", R"(,"stride":[4,1])"));
  differ(shaped("[2,3]"), shaped("[2,3]", R"(,"stride":[0,0])"));
  differ(shaped("[2,3]", R"(,"stride":[1,2])"), shaped("[2,3]", R"(,"stride":[2,1])"));
  same(shaped("[\"s0\",\"s0\"]"), shaped("[\"B\",\"B\"]"));
  same(shaped("[\"s0\",\"s1\"]"), shaped("[\"s1\",\"s0\"]"));
  same(tensors(R"({"shape":["a","b"]},{"shape":["b"]})"), tensors(R"({"shape":["_","a"]},{"shape":["a"]})"));
  same(shaped("[\"\\u0061\"]"), shaped("[\"Z_9\"]"));
  differ(shaped("[\"s0\",\"s0\"]"), shaped("[\"s0\",\"s1\"]"));
  differ(tensors(R"({"shape":["a","b"]},{"shape":["b"]})"), tensors(R"({"shape":["a","b"]},{"shape":["a"]})"));
  differ(tensors(R"({"shape":["a"]},{"shape":["a"]})"), tensors(R"({"shape":["a"]},{"shape":["A"]})"));
  differ(shaped("[\"s0\"]"), shaped("[0]"));
  differ(shaped("[\"s0\"]"), shaped("[1]"));
  same(tensors(R"({"shape":["a"],"note":"a"})"), tensors(R"({"note":"a","shape":["b"]})"));

  // Rule 5: flags.
  for (const char* usual : {R"("cse")", R"("cse=on")", R"("cse=TRUE")", R"("no-cse","cse=yes")", R"("no-debug")", R"("debug=off")", R"("fast-math=No")", R"("bounds-check=False")", R"("debug=1","debug","no-debug")"})
    same(plain, flags(usual));
  same(flags(R"("a","b")"), flags(R"("b","a")"));
  same(flags(R"("a")"), flags(R"("no-a","a=YES")"));
  same(flags(R"("no-a")"), flags(R"("a=oFF")"));
  same(flags(R"("a=1","b","a=2")"), flags(R"("b=true","a=2")"));
  same(flags(R"("no-cse")"), flags(R"("cse=no")"));
  same(flags(R"("on","no")"), flags(R"("no=on","on=on")"));
  differ(flags(R"("a=1","a=2")"), flags(R"("a=2","a=1")"));
  differ(flags(R"("a=1")"), flags(R"("a")"));
  differ(flags(R"("a=")"), flags(R"("a")"));
  differ(flags(R"("a=x")"), flags(R"("a=X")"));
  differ(flags(R"("a=true ")"), flags(R"("a=true")"));
  differ(flags(R"("a=b=c")"), flags(R"("a=b")"));
  differ(flags(R"("ab=c")"), flags(R"("a=bc")"));
  differ(flags(R"("a=t")"), flags(R"("a")"));
  differ(flags(R"("a=on\u0000")"), flags(R"("a=on")"));
  differ(plain, flags(R"("no-a")"));
  differ(plain, flags(R"("no-cse")"));
  differ(plain, flags(R"("debug")"));
  differ(plain, flags(R"("cse=1")"));
  differ(plain, flags(R"("debug=0")"));
  same(flags(R"("0-a--")"), flags(R"("0-a--=yes")"));
  for (const char* wrong : {"1", "null", "[\"a\"]", "\"\"", "\"=\"", "\"=a\"", "\"-a\"", "\"no-\"", "\"no--a\"", "\"no-no-a\"", "\"no-a=1\"", "\"no-=\"", "\"A\"", "\"a_b\"", "\"a b\"", "\"a\\u0000\"", "\"\xc3\xa9\"", "\"a\",\"B=1\"", "\" a\""})
    field(flags(wrong));

  // Rule 6: generic values.
  same(attr(R"({"b":[1,{"y":null,"x":true}],"a":"s"})"), attr(R"({"a":"\u0073","b":[1.0,{"x":true,"y":null}]})"));
  differ(attr("[]"), attr("{}"));
  differ(attr("[[]]"), attr("[]"));
  differ(attr("[1,2]"), attr("[2,1]"));
  differ(attr("[[1],2]"), attr("[[1,2]]"));
  differ(attr("[null]"), attr("[]"));
  differ(attr(R"({"b":null})"), attr("{}"));
  differ(attr(R"({"b":1,"c":2})"), attr(R"({"b":2,"c":1})"));
  differ(attr(R"([{"b":1},{"c":2}])"), attr(R"([{"c":2},{"b":1}])"));
  differ(attr(R"({"b":{"c":1}})"), attr(R"({"c":{"b":1}})"));
  differ(body(R"("x":{"a":[1]},"y":{"a":[1]})"), body(R"("x":{"c":[1]},"y":{"c":[1]})"));
  differ(body(R"("x":[{"a":1},{"a":1}])"), body(R"("x":[{"a":2},{"a":2}])"));
  differ(attr("\"ab\""), attr("[\"a\",\"b\"]"));
  return list;
}

TEST(CompileCacheKeyCanon, follows_every_rule_of_equivalence_and_rejection) {
  const std::vector<Row> list = rows();
  EXPECT_GE(list.size(), 120u);
  for (const Row& row : list) {
    SCOPED_TRACE(row.first + "   and   " + row.second);
    if (row.means == Means::bad_document || row.means == Means::bad_field) {
      const std::string code = row.means == Means::bad_document ? "bad_document" : "bad_field";
      EXPECT_EQ(answer(reference::canonical_digests, row.first).code, code);
      EXPECT_EQ(answer(baseline::canonical_digests, row.first).code, code);
      EXPECT_EQ(answer(cpu::canonical_digests, row.first).code, code);
      continue;
    }
    for (const Function variant : {reference::canonical_digests, cpu::canonical_digests, baseline::canonical_digests}) {
      const Answer first = answer(variant, row.first), second = answer(variant, row.second);
      EXPECT_EQ(first.code, "");
      EXPECT_EQ(second.code, "");
      if (row.means == Means::different) {
        EXPECT_NE(first.digest, second.digest);
      } else if (variant != baseline::canonical_digests) {
        EXPECT_EQ(first.digest, second.digest);
      }
    }
  }
}

// --- mutated documents ---

// What another JSON library says of a text: no RFC 8259, RFC 8259, or a number past its range.
enum class Syntax { bad, good, unknown };
struct OnlyErrors : nlohmann::json_sax<nlohmann::json> {
  bool out_of_range = false;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    out_of_range = error.id == 406;
    return false;
  }
};
Syntax other_library(const std::string& text) {
  OnlyErrors errors;
  if (text.starts_with("\xef\xbb\xbf")) return Syntax::bad;  // it skips the mark, the RFC's grammar has none
  if (nlohmann::json::sax_parse(text, &errors)) return Syntax::good;
  return errors.out_of_range ? Syntax::unknown : Syntax::bad;
}

std::vector<std::string> documents_of(const TensorMap& batch) {
  const auto bytes = batch.at("doc_bytes").flat<std::uint8_t>();
  const auto offsets = batch.at("doc_offsets").flat<std::int64_t>();
  std::vector<std::string> list;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) list.emplace_back(bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]);
  return list;
}

void mutate(Random& random, std::string& text) {
  static constexpr std::string_view pieces[] = {"\"", "\\", "\\u0041", "\\ud83d", "\\ude80", "{", "}", "[", "]", ",", ":", "1", "0", "-", ".0", "e1", "E-1", "true", "null", "false", " ", "\n", "\xc3\xa9", "\xc3", "\x80", "\x01",
                                                "\"a\"", "[1]", "{}", "\"op\"", "\"shape\"", "\"stride\":[1],", "no-", "=", "s0", "\"user\":0,", "99999999999999999999"};
  const auto place = [&] { return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size()) + 1)); };
  for (std::int64_t edits = random.between(1, 3); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = std::min(place(), text.size() - 1);
    switch (random.below(6)) {
      case 0: text[at] = static_cast<char>(random.below(256)); break;
      case 1: text.erase(at, static_cast<std::size_t>(random.between(1, 3))); break;
      case 2: text.insert(at, pieces[random.below(std::size(pieces))]); break;
      case 3: text.insert(at, text.substr(place(), static_cast<std::size_t>(random.between(1, 20)))); break;
      case 4: std::swap(text[at], text[std::min(place(), text.size() - 1)]); break;
      default: {  // one token for another of the text
        const std::string_view piece = pieces[random.below(std::size(pieces))];
        text.replace(at, std::min<std::size_t>(piece.size(), text.size() - at), piece);
      }
    }
  }
}

TEST(CompileCacheKeyCanon, agrees_on_mutated_documents_with_the_reference_and_another_parser) {
  Random random(2024);
  std::vector<std::string> seeds;
  for (const Case& c : task().cases) {
    Random own(7);
    const TensorMap batch = c.inputs(own);
    Dims dims;
    if (!task().contract.check_general(refs(batch), dims))
      for (std::string& text : documents_of(batch))
        if (text.size() < 2000) seeds.push_back(std::move(text));
  }
  for (std::string& text : documents_of(random_requests(random, 30, 2))) seeds.push_back(std::move(text));
  std::vector<std::string> accepted;
  int counts[3] = {};
  // What the contract forbids and the RFC leaves open.
  const char* const own_limits[] = {"twice", "deeper", "exponent beyond", "64 characters", "top level"};
  for (int i = 0; i < 12000; ++i) {
    std::string text = seeds[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(seeds.size())))];
    mutate(random, text);
    const reference::Reading reading = reference::read(text);
    const std::string code = reading.fault == reference::Fault::bad_document ? "bad_document" : reading.fault == reference::Fault::bad_field ? "bad_field" : "";
    ++counts[static_cast<int>(reading.fault)];
    ASSERT_EQ(answer(cpu::canonical_digests, text).code, code) << text << "\n" << reading.why;
    ASSERT_EQ(answer(baseline::canonical_digests, text).code, code) << text << "\n" << reading.why;
    const Syntax other = other_library(text);
    if (code != "bad_document") {
      ASSERT_NE(other, Syntax::bad) << text;
    } else if (const bool own_limit = std::ranges::any_of(own_limits, [&](const char* word) { return reading.why.find(word) != std::string::npos; }); !own_limit) {
      ASSERT_NE(other, Syntax::good) << text << "\n" << reading.why;
    }
    if (code.empty()) accepted.push_back(std::move(text));
  }
  for (const int count : counts) EXPECT_GT(count, 200);
  const TensorMap batch = batch_of(accepted);
  testing_support::check_inputs(task(), testing_support::variant_of(task(), "cpu"), batch);
  testing_support::check_inputs(task(), testing_support::variant_of(task(), "baseline"), batch);
}

// --- workloads, cases, threads, targets ---

TEST(CompileCacheKeyCanon, smoke_has_four_spellings_of_each_signature_that_the_baseline_tells_apart) {
  Random random(task().name, "smoke", 1, 0);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random);
  ASSERT_EQ(inputs.at("doc_offsets").size(), 301);
  EXPECT_FALSE(task().contract.validate(refs(inputs)).has_value());
  const auto distinct = [&](const char* variant) { return task().metric.objective(refs(inputs), refs(run_kernel(task().contract, task().find_variant(variant)->kernel, refs(inputs)))); };
  EXPECT_EQ(distinct("reference"), 75);
  EXPECT_EQ(distinct("cpu"), 75);
  EXPECT_EQ(distinct("baseline"), 300);
  testing_support::check_inputs(task(), testing_support::variant_of(task(), "cpu"), inputs);
  testing_support::check_inputs(task(), testing_support::variant_of(task(), "baseline"), inputs);
}

TEST(CompileCacheKeyCanon, generates_the_same_batch_on_any_number_of_threads) {
  const int threads = omp_get_max_threads();
  const auto made = [&](int count) {
    omp_set_num_threads(count);
    Random random(5);
    return documents_of(random_requests(random, 40, 4));
  };
  const auto one = made(1), three = made(3);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
}

TEST(CompileCacheKeyCanon, all_variants_pass_the_fixed_cases) {
  for (const char* variant : {"reference", "baseline", "cpu"}) testing_support::check_all_cases(task(), variant);
}
TEST(CompileCacheKeyCanon, all_variants_pass_random_cases) {
  for (const char* variant : {"baseline", "cpu"}) testing_support::check_random_cases(task(), variant, 100);
}
TEST(CompileCacheKeyCanon, all_variants_pass_the_case_files) {
  for (const char* variant : {"reference", "baseline", "cpu"}) testing_support::check_case_files(task(), variant);
}
TEST(CompileCacheKeyCanon, any_number_of_threads_will_do) {
  Random random(8);
  const std::vector<std::string> good = documents_of(random_requests(random, 200, 3));
  auto bad_field = good, bad_document = good;
  bad_field[250] = R"({"op":1})", bad_field[590] = R"({"op":2})";
  bad_document[3] = R"({"op":1})", bad_document[400] = "{", bad_document[599] = "[]";
  const auto rejection = [](const std::vector<std::string>& documents) {
    const Rejected rejected = testing_support::rejection_by(task(), "cpu", batch_of(documents));
    return rejected ? rejected->code + " " + std::to_string(rejected->index) : "none";
  };
  const int threads = omp_get_max_threads();
  for (const int count : {1, 2, 3}) {
    omp_set_num_threads(count);
    for (const auto& documents : {good, bad_field, bad_document}) testing_support::check_inputs(task(), testing_support::variant_of(task(), "cpu"), batch_of(documents));
    EXPECT_EQ(rejection(good), "none");
    EXPECT_EQ(rejection(bad_field), "bad_field 250");
    EXPECT_EQ(rejection(bad_document), "bad_document 400");
  }
  omp_set_num_threads(threads);
}
TEST(CompileCacheKeyCanon, every_instruction_set_gives_the_same_digests) {
  Random random(9);
  const TensorMap inputs = random_requests(random, 40, 2);
  const auto digests = [&] {
    const TensorMap out = run_kernel(task().contract, task().find_variant("cpu")->kernel, refs(inputs));
    const auto bytes = out.at("digest").flat<std::uint8_t>();
    return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  };
  const auto usual = digests();
  testing_support::under_every_instruction_set([&](std::int64_t) {
    EXPECT_EQ(digests(), usual);
    testing_support::check_all_cases(task(), "cpu");
  });
}

TEST(CompileCacheKeyCanon, the_gate_refuses_cheap_answers) {
  Random random(task().name, "smoke", 3, 0);
  const TensorMap inputs = task().find_workload("smoke")->parts[0](random), wanted = expected_outputs(task(), refs(inputs));
  const auto refused = [&](const char* what, const std::function<void(std::span<std::uint8_t>, std::int64_t)>& cheat) {
    std::vector<TensorMap> probes;
    TensorMap out = clone(wanted);
    cheat(out.at("digest").flat<std::uint8_t>(), 300);
    for (const Probe& probe : task().gate.probes(refs(inputs))) {
      probes.push_back(expected_outputs(task(), refs(probe.inputs)));
      auto digests = probes.back().at("digest").flat<std::uint8_t>();
      cheat(digests, static_cast<std::int64_t>(digests.size() / 16));
    }
    EXPECT_TRUE(task().gate.check({refs(inputs), refs(out), refs(wanted), probes, false}).has_value()) << what;
  };
  refused("zeros", [](auto digests, std::int64_t) { std::fill(digests.begin(), digests.end(), std::uint8_t{0}); });
  refused("a class number inside the batch", [](auto digests, std::int64_t count) {
    std::map<Digest, std::uint8_t> numbers;
    for (std::int64_t i = 0; i < count; ++i) {
      Digest d;
      std::copy_n(digests.begin() + 16 * i, 16, d.begin());
      const std::uint8_t number = numbers.try_emplace(d, static_cast<std::uint8_t>(numbers.size())).first->second;
      std::fill_n(digests.begin() + 16 * i, 16, number);
    }
  });
  refused("two documents exchanged", [](auto digests, std::int64_t) { std::swap_ranges(digests.begin(), digests.begin() + 16, digests.begin() + 16 * 100); });
  refused("one byte for all", [](auto digests, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) std::fill_n(digests.begin() + 16 * i + 1, 15, std::uint8_t{0});
  });
}

}  // namespace
}  // namespace faibench
