// One case a line of the contract's edge cases and traps: texts that mean the same, texts that nearly do, and texts that must be rejected.
#include "kernels/compiler/compile_cache_key_canon/cases.h"

#include <string>
#include <string_view>
#include <utility>

#include "kernels/compiler/compile_cache_key_canon/requests.h"

namespace faibench::compile_cache_key_canon {
namespace {

using Documents = std::vector<std::string>;

Case documents(const char* name, const char* note, Documents list) {
  return {name, note, [list = std::move(list)](Random&) { return batch_of(list); }};
}
// The bodies are members that follow "op".
Case bodies(const char* name, const char* note, const Documents& list) {
  Documents whole = {R"({"op":"f"})"};
  for (const std::string& body : list) whole.push_back(R"({"op":"f",)" + body + "}");
  return documents(name, note, std::move(whole));
}
Case inputs(const char* name, const char* note, const Documents& list) {
  Documents members;
  for (const std::string& tensors : list) members.push_back(R"("inputs":[)" + tensors + "]");
  return bodies(name, note, members);
}
// The text comes second, after a valid document and before one with another fault.
Case rejected(std::string name, std::string text) {
  return {std::move(name), "must be rejected", [text = std::move(text)](Random&) { return batch_of({R"({"op":"f"})", text, R"({"op":1})"}); }};
}

std::string nested(int depth, const std::string& open, const std::string& close) {
  std::string text = R"({"op":"f","deep":)";
  for (int i = 1; i < depth; ++i) text += open;
  text += open[0] == '{' ? "1" : "";
  for (int i = 1; i < depth; ++i) text += close;
  return text + "}";
}

void add_general(std::vector<Case>& cases) {
  const auto without = [](const char* name, const char* tensor) {
    return Case{name, "an input is missing", [tensor](Random&) { TensorMap in = batch_of({R"({"op":"f"})"}); in.erase(tensor); return in; }};
  };
  cases.push_back(without("missing_doc_bytes", "doc_bytes"));
  cases.push_back(without("missing_doc_offsets", "doc_offsets"));
  cases.push_back({"extra_tensor", "an input the contract does not know", [](Random&) { TensorMap in = batch_of({R"({"op":"f"})"}); in.add("more", Tensor(Dtype::u8, {1})); return in; }});
  cases.push_back({"offsets_are_i32", "another dtype", [](Random&) { TensorMap in; in.add("doc_bytes", Tensor::text("{}")); in.add("doc_offsets", Tensor::of<std::int32_t>({2}, {0, 2})); return in; }});
  cases.push_back({"bytes_of_rank_2", "another rank", [](Random&) { TensorMap in; in.add("doc_bytes", Tensor(Dtype::u8, {1, 2})); in.add("doc_offsets", Tensor::of<std::int64_t>({2}, {0, 2})); return in; }});
  const auto offsets = [](const char* name, std::vector<std::int64_t> list) {
    return Case{name, "bad_offsets", [list](Random&) {
                  TensorMap in;
                  in.add("doc_bytes", Tensor::text(R"({"op":"f"})"));
                  in.add("doc_offsets", Tensor::of<std::int64_t>({static_cast<std::int64_t>(list.size())}, list));
                  return in;
                }};
  };
  cases.push_back(offsets("offsets_begin_at_1", {1, 10}));
  cases.push_back(offsets("offsets_decrease", {0, 10, 5, 10}));
  cases.push_back(offsets("offsets_end_early", {0, 9}));
  cases.push_back(offsets("offsets_end_late", {0, 11}));
  cases.push_back(documents("no_documents", "N = 0", {}));
  cases.push_back(documents("one_document", "N = 1", {R"({"op":"f"})"}));
}

void add_equivalences(std::vector<Case>& cases) {
  cases.push_back(documents("key_order", "of objects, nested too",
                            {R"({"op":"f","attrs":{"a":{"x":1,"y":[{"p":1,"q":2}]},"b":2},"z":0})", R"({"z":0,"attrs":{"b":2,"a":{"y":[{"q":2,"p":1}],"x":1}},"op":"f"})",
                             R"({"z":0,"attrs":{"b":2,"a":{"y":[{"q":1,"p":2}],"x":1}},"op":"f"})"}));
  cases.push_back(documents("white_space_and_escapes", "say nothing",
                            {R"({"op":"A/\"\\\n"})", "\t\r\n {\n\"op\" :\r\"\\u0041\\/\\u0022\\u005c\\u000A\"\t}\n ", "{\"\\u006fp\":\"A/\\\"\\\\\\u000a\"}", R"({"op":"A/\"\\n"})"}));
  cases.push_back(documents("code_points", "composed against decomposed, surrogate pairs, NUL, DEL",
                            {"{\"op\":\"\xc3\xa9\"}", R"({"op":"\u00e9"})", R"({"op":"e\u0301"})", "{\"op\":\"e\xcc\x81\"}", R"({"op":"\ud83d\ude80"})", "{\"op\":\"\xf0\x9f\x9a\x80\"}",
                             R"({"op":"\u0000"})", R"({"op":"\u0000\u0000"})", "{\"op\":\"\x7f\"}", R"({"op":"\u007F"})", R"({"op":"\uFFFF"})", "{\"op\":\"\xef\xbf\xbf\"}",
                             R"({"op":"\udbff\udfff"})", "{\"op\":\"\xf4\x8f\xbf\xbf\"}"}));
  cases.push_back(bodies("numbers", "by exact value",
                         {R"("x":1)", R"("x":1.0)", R"("x":1E0)", R"("x":10e-1)", R"("x":0.01e+2)", R"("x":"1")", R"("x":true)", R"("x":0)", R"("x":-0)", R"("x":0e-9999)", R"("x":-0.000)",
                          R"("x":false)", R"("x":null)", R"("x":"")", R"("x":9007199254740993)", R"("x":9007199254740992)", R"("x":9007199254740992.0)", R"("x":0.1)", R"("x":1e-1)",
                          R"("x":0.1000000000000000055511151231257827)", R"("x":-1)", R"("x":1e400)", R"("x":10e399)", R"("x":1e401)", R"("x":18446744073709551615)",
                          R"("x":18446744073709551616)", R"("x":1844674407370955161.6e1)", R"("x":99999999999999999999)", R"("x":9999999999999999999)", R"("x":1e9999)", R"("x":0.1e-9999)",
                          R"("x":1000000000000000000000000000000000000000000000000000000000000000)", R"("x":1e63)", R"("x":1234567890123456789012e00000000000000000000000000000000000000005)",
                          R"("x":12345678901234567890120.0e4)"}));
  cases.push_back(bodies("defaults_written_out", "equal absence",
                         {R"("backend":"cuda","inputs":[],"attrs":{},"passes":[],"flags":[],"opt_level":2,"deterministic":false,"dynamic":false)",
                          R"("backend":null,"inputs":null,"attrs":null,"passes":null,"flags":null,"opt_level":null,"deterministic":null,"dynamic":null)",
                          R"("attrs":{"a":null},"flags":["cse","no-debug"],"opt_level":20e-1,"backend":"GPU")", R"("opt_level":1)", R"("deterministic":true)", R"("dynamic":true)",
                          R"("opt_level":3)", R"("opt_level":-0)", R"("opt_level":0.0)"}));
  cases.push_back(bodies("ignored_fields", "and unknown ones, which are not",
                         {R"("request_id":1)", R"("request_id":{"a":[null]},"timestamp":1e5,"user":"x","trace_id":[],"priority":true)", R"("Request_id":1)", R"("extra":null)", R"("extra":{})",
                          R"("extra":[])", R"("extra":{"a":null})", R"("Extra":null)", R"("":null)", R"("inputs2":[])"}));
  cases.push_back(bodies("backends", "aliases, without case",
                         {R"("backend":"NV")", R"("backend":"nvidia")", R"("backend":"x86")", R"("backend":"HOST")", R"("backend":"cpu")", R"("backend":"hip")", R"("backend":"AMD")",
                          R"("backend":"rocm")", R"("backend":"")", R"("backend":"Tpu")", R"("backend":"tPU")", R"("backend":"cuda ")", "\"backend\":\"\xc3\x89\"", "\"backend\":\"\xc3\xa9\""}));
  cases.push_back(bodies("attrs", "arrays in order, null members absent at the top only",
                         {R"("attrs":{"v":[1,2]})", R"("attrs":{"v":[2,1]})", R"("attrs":{"v":[[1],[2]]})", R"("attrs":{"v":[[1,2]]})", R"("attrs":{"a":{}})", R"("attrs":{"a":[]})",
                          R"("attrs":{"a":{"b":null}})", R"("attrs":{"a":[null]})", R"("attrs":{"a":null,"v":[1,2]})", R"("attrs":{"v":[1,2,null]})", R"("attrs":{"a":{"b":{}}})"}));
  cases.push_back(bodies("passes", "order, repetition and borders count",
                         {R"("passes":["a","b"])", R"("passes":["b","a"])", R"("passes":["a","b","b"])", R"("passes":["ab"])", R"("passes":["ab","c"])", R"("passes":["a","bc"])",
                          R"("passes":["abc"])", R"("passes":["a","b",""])", R"("passes":["","a","b"])", R"("passes":["a,b"])", R"("passes":["A","b"])"}));
  cases.push_back(bodies("flags", "order free, last setting, defaults",
                         {R"("flags":["a","b"])", R"("flags":["b","a"])", R"("flags":["no-a","b","a=YES"])", R"("flags":["a=1","b"])", R"("flags":["b","a=2","a=1"])", R"("flags":["no-cse"])",
                          R"("flags":["cse=off"])", R"("flags":["no-cse","cse"])", R"("flags":["cse=1"])", R"("flags":["debug=No","fast-math=FALSE"])", R"("flags":["no","on","off=on"])",
                          R"("flags":["on","no=yes","off"])", R"("flags":["x="])", R"("flags":["x=a=b"])", R"("flags":["x=True "])", R"("flags":["x=true"])", R"("flags":["a-","0--"])",
                          R"("flags":["no-a"])", R"("flags":["a=\u006fFF"])", R"("flags":["debug=1","no-debug"])", R"("flags":["ab=c"])", R"("flags":["a=bc"])"}));
}

void add_tensors(std::vector<Case>& cases) {
  cases.push_back(inputs("dtypes", "aliases, without case and one torch.",
                         {R"({"shape":[1]})", R"({"shape":[1],"dtype":"F32"})", R"({"shape":[1],"dtype":"Torch.Float"})", R"({"shape":[1],"dtype":"torch.torch.float"})",
                          R"({"shape":[1],"dtype":"f16"})", R"({"shape":[1],"dtype":"half"})", R"({"shape":[1],"dtype":"bf16"})", R"({"shape":[1],"dtype":"bfloat16"})",
                          R"({"shape":[1],"dtype":"boolean"})", R"({"shape":[1],"dtype":"bool"})", R"({"shape":[1],"dtype":"byte"})", R"({"shape":[1],"dtype":"uint8"})",
                          R"({"shape":[1],"dtype":"f8"})", R"({"shape":[1],"dtype":""})", R"({"shape":[1],"dtype":"torch."})", R"({"shape":[1],"dtype":null})"}));
  cases.push_back(inputs("devices", "aliases",
                         {R"({"shape":[1]})", R"({"shape":[1],"device":"GPU"})", R"({"shape":[1],"device":"gpu:0"})", R"({"shape":[1],"device":"cuda:1"})", R"({"shape":[1],"device":"Gpu:1"})",
                          R"({"shape":[1],"device":"cpu"})", R"({"shape":[1],"device":"CPU:0"})", R"({"shape":[1],"device":"cpu:1"})", R"({"shape":[1],"device":"gpu:"})",
                          R"({"shape":[1],"device":"cuda:"})", R"({"shape":[1],"device":"gpu:x y"})", R"({"shape":[1],"device":"cuda:X Y"})", R"({"shape":[1],"device":""})",
                          R"({"shape":[1],"requires_grad":false,"device":null})", R"({"shape":[1],"requires_grad":true})", R"({"shape":[1],"layout":null})", R"({"layout":{},"shape":[1]})"}));
  cases.push_back(inputs("strides", "contiguous, transposed, of size-1 dims, of empty tensors",
                         {R"({"shape":[2,3]})", R"({"shape":[2,3],"stride":[3,1]})", R"({"stride":[3.0,10e-1],"shape":[2,3]})", R"({"shape":[2,3],"stride":[1,2]})", R"({"shape":[2,3],"stride":[0,1]})",
                          R"({"shape":[2,1,3],"stride":[3,99,1]})", R"({"shape":[2,1,3]})", R"({"shape":[2,1,3],"stride":[4,1,1]})", R"({"shape":[2,1,3],"stride":[4,0,1]})",
                          R"({"shape":[0,3],"stride":[7,7]})", R"({"shape":[0,3]})", R"({"shape":[]})", R"({"shape":[],"stride":[]})", R"({"shape":[1],"stride":[4611686018427387904]})",
                          R"({"shape":[1]})", R"({"shape":[3,2]})", R"({"shape":[2,3],"stride":null})", R"({"shape":[2147483647,2147483647]})",
                          R"({"shape":[2147483647,2147483647],"stride":[2147483647,1]})", R"({"shape":[3,0,2147483647,2147483647]})"}));
  cases.push_back(inputs("symbols", "are names only",
                         {R"({"shape":["s0","s0"]})", R"({"shape":["s0","s1"]})", R"({"shape":["B","B"]})", R"({"shape":["_","Z9"]})", R"({"shape":["s1","s0"]})", R"({"shape":["a",0]})",
                          R"({"shape":["a"]},{"shape":["a"]})", R"({"shape":["a"]},{"shape":["b"]})", R"({"shape":["b"]},{"shape":["a"]})", R"({"shape":["a","b"]},{"shape":["b"]})",
                          R"({"shape":["a","b"]},{"shape":["a"]})", R"({"shape":[0,0]})", R"({"shape":["s0",1]})", R"({"shape":[1,"s0"]})", R"({"shape":["a","b"],"stride":null})"}));
  cases.push_back(inputs("input_order", "counts", {R"({"shape":[1]},{"shape":[2]})", R"({"shape":[2]},{"shape":[1]})", R"({"shape":[1,2]})", R"({"shape":[1]})", R"({"shape":[1]},{"shape":[]},{"shape":[2]})"}));
  cases.push_back(documents("prefixes_and_seams", "one text inside another; contents that concatenate alike",
                            {R"({"op":"a"})", R"({"op":"a","b":1})", R"({"op":"ab"})", R"({"op":"a","ab":"c"})", R"({"op":"a","a":"bc"})", R"({"op":"a","attrs":{"ab":"c"}})", R"({"op":"a","attrs":{"a":"bc"}})",
                             R"({"op":"a"})", R"({"op":"a","x":{"a":1,"b":2}})", R"({"op":"a","x":{"a":2,"b":1}})", R"({"op":"a","x":{"a":1},"y":{"b":2}})", R"({"op":"a","x":{"b":2},"y":{"a":1}})",
                             R"({"op":"a","x":{"a":[1]},"y":{"a":[1]}})", R"({"op":"a","x":{"c":[1]},"y":{"c":[1]}})"}));
  cases.push_back(documents("deepest_nesting", "64 levels", {nested(64, "[", "]"), nested(64, "{\"a\":", "}")}));
  cases.push_back({"many_members", "an object of a thousand members, two ways", [](Random& random) {
                     Documents list(3);
                     for (std::string& text : list) {
                       text = R"({"op":"f")";
                       for (const std::int64_t i : random.permutation(1000)) text += ",\"k" + std::to_string(i) + "\":" + std::to_string(&text == &list[2] && i == 500 ? 7 : i);
                       text += "}";
                     }
                     return batch_of(list);
                   }});
  cases.push_back({"many_flags_and_symbols", "hundreds in one document, two ways", [](Random& random) {
                     Documents list(3);
                     for (std::string& text : list) {
                       text = R"({"op":"f","flags":["f0=x")";
                       for (const std::int64_t i : random.permutation(300)) text += ",\"f" + std::to_string(i) + "=" + std::to_string(&text == &list[2] && i == 150 ? 7 : i) + "\"";
                       text += R"(],"inputs":[{"shape":["x")";
                       for (int i = 0; i < 600; ++i) text += ",\"" + std::string(&text == &list[1] ? "t" : "s") + std::to_string(i % 300) + "\"";
                       text += "]}]}";
                     }
                     return batch_of(list);
                   }});
  cases.push_back({"long_strings", "across blocks of 64 bytes, with escapes at every place", [](Random&) {
                     Documents list;
                     for (std::size_t n = 1; n < 140; ++n) {
                       list.push_back(R"({"op":")" + std::string(n, 'x') + "\"}");
                       list.push_back(R"({"op":")" + std::string(n - 1, 'x') + "\\u0078\"}");
                       list.push_back(R"({"op":")" + std::string(n - 1, 'x') + "\\\\\"}");
                       list.push_back(R"({"op":")" + std::string(n - 1, 'x') + "\\u005C\"}");
                     }
                     return batch_of(list);
                   }});
}

void add_rejections(std::vector<Case>& cases) {
  const std::vector<std::pair<const char*, std::string>> documents = {
      {"empty_document", ""}, {"white_space_only", " \n"}, {"top_level_array", "[]"}, {"top_level_string", R"("op")"}, {"byte_order_mark", "\xef\xbb\xbf{\"op\":\"f\"}"},
      {"trailing_comma", R"({"op":"f",})"}, {"trailing_comma_in_array", R"({"op":"f","x":[1,]})"}, {"nan", R"({"op":"f","x":NaN})"}, {"text_after", R"({"op":"f"}x)"},
      {"two_objects", R"({"op":"f"}{"op":"f"})"}, {"unclosed", R"({"op":"f")"}, {"unclosed_string", R"({"op":"f)"}, {"raw_newline_in_string", "{\"op\":\"a\nb\"}"}, {"raw_nul_in_string", std::string("{\"op\":\"a\0b\"}", 12)},
      {"nul_outside", std::string("{\"op\":\0\"f\"}", 11)}, {"unpaired_high", R"({"op":"\ud83d"})"}, {"unpaired_low", R"({"op":"\ude80"})"}, {"high_then_other", R"({"op":"\ud83d\u0041"})"},
      {"bad_escape", R"({"op":"\x41"})"}, {"short_escape", R"({"op":"\u041"})"}, {"overlong_utf8", "{\"op\":\"\xc0\xaf\"}"}, {"surrogate_in_utf8", "{\"op\":\"\xed\xa0\x80\"}"},
      {"cut_utf8", "{\"op\":\"\xe2\x82\"}"}, {"beyond_unicode", "{\"op\":\"\xf4\x90\x80\x80\"}"}, {"lone_continuation", "{\"op\":\"\x80\"}"}, {"key_twice", R"({"op":"f","a":1,"a":1})"},
      {"key_twice_after_unescaping", R"({"op":"f","user":1,"\u0075ser":1})"}, {"key_twice_deep", R"({"op":"f","user":[{"a":{"b":1,"b":2}}]})"}, {"known_key_twice", R"({"op":"f","op":"f"})"},
      {"tensor_key_twice", R"({"op":"f","inputs":[{"shape":[],"shape":[]}]})"}, {"nested_65", nested(65, "[", "]")}, {"nested_65_objects", nested(65, "{\"a\":", "}")},
      {"number_of_65_characters", R"({"op":"f","x":)" + std::string(65, '1') + "}"}, {"exponent_10000", R"({"op":"f","x":1e10000})"}, {"exponent_minus_10000", R"({"op":"f","x":0e-10000})"},
      {"leading_zero", R"({"op":"f","x":01})"}, {"plus_sign", R"({"op":"f","x":+1})"}, {"no_fraction", R"({"op":"f","x":1.})"}, {"minus_alone", R"({"op":"f","x":-})"},
      {"no_exponent", R"({"op":"f","x":1e})"}, {"number_then_letter", R"({"op":"f","x":1a})"}, {"word_in_capitals", R"({"op":"f","x":True})"}, {"word_goes_on", R"({"op":"f","x":nulls})"},
      {"single_quotes", R"({'op':'f'})"}, {"comment", R"({"op":"f"/**/})"}, {"no_colon", R"({"op" "f"})"}, {"two_commas", R"({"op":"f",,"x":1})"}, {"mismatched_brackets", R"({"op":"f","x":[1}])"},
      {"form_feed_as_space", "{\f\"op\":\"f\"}"}, {"bad_document_in_an_ignored_field", R"({"op":"f","user":[1,2})"}, {"bad_document_and_bad_field", R"({"op":1,"x":[})"}};
  for (const auto& [name, text] : documents) cases.push_back(rejected(std::string("bad_document_") + name, text));
  const std::vector<std::pair<const char*, const char*>> fields = {
      {"op_missing", R"({"x":1})"}, {"op_null", R"({"op":null})"}, {"op_empty", R"({"op":""})"}, {"op_number", R"({"op":1})"}, {"backend_number", R"({"op":"f","backend":1})"},
      {"inputs_object", R"({"op":"f","inputs":{}})"}, {"input_null", R"({"op":"f","inputs":[null]})"}, {"attrs_array", R"({"op":"f","attrs":[]})"}, {"passes_string", R"({"op":"f","passes":"a"})"},
      {"pass_null", R"({"op":"f","passes":[null]})"}, {"flags_object", R"({"op":"f","flags":{}})"}, {"flag_number", R"({"op":"f","flags":[1]})"}, {"opt_level_4", R"({"op":"f","opt_level":4})"},
      {"opt_level_half", R"({"op":"f","opt_level":1.5})"}, {"opt_level_negative", R"({"op":"f","opt_level":-1})"}, {"opt_level_string", R"({"op":"f","opt_level":"2"})"},
      {"deterministic_number", R"({"op":"f","deterministic":0})"}, {"dynamic_string", R"({"op":"f","dynamic":"false"})"}, {"shape_missing", R"({"op":"f","inputs":[{}]})"},
      {"shape_null", R"({"op":"f","inputs":[{"shape":null}]})"}, {"size_too_large", R"({"op":"f","inputs":[{"shape":[2147483648]}]})"}, {"size_negative", R"({"op":"f","inputs":[{"shape":[-1]}]})"},
      {"size_fraction", R"({"op":"f","inputs":[{"shape":[1.5]}]})"}, {"symbol_with_dash", R"({"op":"f","inputs":[{"shape":["a-b"]}]})"}, {"symbol_empty", R"({"op":"f","inputs":[{"shape":[""]}]})"},
      {"symbol_begins_with_digit", R"({"op":"f","inputs":[{"shape":["0a"]}]})"}, {"dtype_number", R"({"op":"f","inputs":[{"shape":[],"dtype":1}]})"},
      {"device_true", R"({"op":"f","inputs":[{"shape":[],"device":true}]})"}, {"requires_grad_number", R"({"op":"f","inputs":[{"shape":[],"requires_grad":1}]})"},
      {"stride_short", R"({"op":"f","inputs":[{"shape":[1,1],"stride":[1]}]})"}, {"stride_too_large", R"({"op":"f","inputs":[{"shape":[1],"stride":[4611686018427387905]}]})"},
      {"stride_of_empty_tensor_negative", R"({"op":"f","inputs":[{"shape":[0],"stride":[-1]}]})"}, {"stride_with_symbols", R"({"op":"f","inputs":[{"stride":[1],"shape":["a"]}]})"},
      {"product_too_large", R"({"op":"f","inputs":[{"shape":[2147483647,2147483647,2]}]})"}, {"product_too_large_beside_0", R"({"op":"f","inputs":[{"shape":[0,2147483647,2147483647,2]}]})"},
      {"flag_empty", R"({"op":"f","flags":[""]})"}, {"flag_no_alone", R"({"op":"f","flags":["no-"]})"}, {"flag_no_no", R"({"op":"f","flags":["no-no-a"]})"}, {"flag_no_value", R"({"op":"f","flags":["no-a=1"]})"},
      {"flag_capital", R"({"op":"f","flags":["A"]})"}, {"flag_dash", R"({"op":"f","flags":["-a"]})"}, {"flag_no_name", R"({"op":"f","flags":["=a"]})"}, {"flag_overridden_bad", R"({"op":"f","flags":["a_","a"]})"}};
  for (const auto& [name, text] : fields) cases.push_back(rejected(std::string("bad_field_") + name, text));
  cases.push_back({"bad_document_after_bad_field", "the code of the first rule", [](Random&) { return batch_of({R"({"op":1})", R"({"op":"f"})", "{"}); }});
}

}  // namespace

std::vector<Case> fixed_cases() {
  std::vector<Case> cases;
  add_general(cases);
  add_equivalences(cases);
  add_tensors(cases);
  add_rejections(cases);
  return cases;
}

}  // namespace faibench::compile_cache_key_canon
