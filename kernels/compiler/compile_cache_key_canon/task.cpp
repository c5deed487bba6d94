// compile_cache_key_canon: contract, rules, gate, workloads, floor, metric.
#include "task/task.h"

#include <array>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "kernels/compiler/compile_cache_key_canon/cases.h"
#include "kernels/compiler/compile_cache_key_canon/compile_cache_key_canon.h"
#include "kernels/compiler/compile_cache_key_canon/reference.h"
#include "kernels/compiler/compile_cache_key_canon/requests.h"

namespace faibench {
namespace compile_cache_key_canon {
namespace {

struct Batch {
  std::string_view bytes;
  std::span<const std::int64_t> offsets;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  [[nodiscard]] std::string_view document(std::int64_t i) const {
    const std::int64_t begin = offsets[static_cast<std::size_t>(i)];
    return bytes.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(offsets[static_cast<std::size_t>(i) + 1] - begin));
  }
};
Batch batch(const TensorRefMap& inputs) {
  const auto bytes = inputs.at("doc_bytes").flat<const std::uint8_t>();
  return {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, inputs.at("doc_offsets").flat<const std::int64_t>()};
}

// What `read` finds wrong with the first document that has this fault.
Rejected first_fault(const TensorRefMap& inputs, reference::Fault fault, const char* code, reference::Reading (*read)(std::string_view)) {
  const Batch documents = batch(inputs);
  std::int64_t first = documents.count();
#pragma omp parallel for schedule(dynamic, 64) reduction(min : first) if (first > 64)
  for (std::int64_t i = 0; i < documents.count(); ++i)
    if (i < first && read(documents.document(i)).fault == fault) first = i;
  if (first == documents.count()) return std::nullopt;
  const reference::Reading reading = read(documents.document(first));
  return reject(code, "doc_offsets", first, std::to_string(documents.offsets[static_cast<std::size_t>(first)]),
                "document " + std::to_string(first) + (fault == reference::Fault::bad_document ? ", byte " + std::to_string(reading.position) : "") + ": " + reading.why);
}

// The reference's digests; documents are independent, so the judge may use all its threads.
TensorMap expected(const TensorRefMap& inputs) {
  const Batch documents = batch(inputs);
  const std::int64_t count = documents.count();
  TensorMap outputs;
  const View<std::uint8_t, 2> digest = outputs.add("digest", Tensor(Dtype::u8, {count, 16})).view<std::uint8_t, 2>();
  constexpr std::int64_t part = 64;
  Rejected rejected;
#pragma omp parallel for schedule(dynamic) if (count > part)
  for (std::int64_t begin = 0; begin < count; begin += part) {
    const std::int64_t size = std::min(part, count - begin);
    const std::int64_t base = documents.offsets[static_cast<std::size_t>(begin)], end = documents.offsets[static_cast<std::size_t>(begin + size)];
    std::array<std::int64_t, part + 1> offsets{};
    for (std::int64_t i = 0; i <= size; ++i) offsets[static_cast<std::size_t>(i)] = documents.offsets[static_cast<std::size_t>(begin + i)] - base;
    Rejected own = reference::canonical_digests(documents.bytes.substr(static_cast<std::size_t>(base), static_cast<std::size_t>(end - base)),
                                                View<const std::int64_t, 1>(offsets.data(), {size + 1}), View<std::uint8_t, 2>(digest.data() + 16 * begin, {size, 16}));
    if (own) {
#pragma omp critical
      rejected = std::move(own);
    }
  }
  if (rejected) throw Error(Error::Kind::internal, "expected digests of an invalid batch: " + rejected->message);
  return outputs;
}

using Digest = std::array<std::uint8_t, 16>;
struct DigestHash {
  // All bytes count: a submission's digests need not be well mixed.
  std::size_t operator()(const Digest& d) const {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, d.data(), 8), std::memcpy(&b, d.data() + 8, 8);
    a = (a ^ (b >> 31) ^ b * 0x9E3779B97F4A7C15u) * 0xD1342543DE82EF95u;
    return static_cast<std::size_t>(a ^ a >> 32);
  }
};
Digest digest_at(const TensorRef& digests, std::int64_t i) {
  Digest d;
  std::memcpy(d.data(), digests.data + 16 * i, 16);
  return d;
}
Mismatch differs(std::int64_t i, std::string what) { return {"digest", {i}, "", "", 0, std::move(what)}; }

// Document i of the batch is document `at` of a probe.
GateResult same_in_probe(const TensorRef& digests, const TensorMap& probe, std::int64_t first, const std::function<std::int64_t(std::int64_t)>& at, const char* where) {
  const TensorRef& again = probe.at("digest").ref();
  for (std::int64_t i = first; i < digests.shape[0]; ++i)
    if (digest_at(digests, i) != digest_at(again, at(i))) return differs(i, "document " + std::to_string(i) + " has another digest in " + where);
  return std::nullopt;
}

GateResult check(const GateCall& call) {
  const TensorRef &got = call.outputs.at("digest"), &wanted = call.expected.at("digest");
  if (GateResult bad = same_form("digest", got, wanted)) return bad;
  const std::int64_t count = got.shape[0];
  struct Seen {
    Digest other;
    std::int64_t document;
  };
  std::unordered_map<Digest, Seen, DigestHash> by_digest, by_meaning;
  by_digest.reserve(static_cast<std::size_t>(count)), by_meaning.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Digest digest = digest_at(got, i), meaning = digest_at(wanted, i);
    if (const auto [at, is_new] = by_digest.try_emplace(digest, Seen{meaning, i}); !is_new && at->second.other != meaning)
      return differs(i, "digests of documents " + std::to_string(at->second.document) + " and " + std::to_string(i) + " are equal, the documents are not equivalent");
    if (call.candidate_is_baseline) continue;
    if (const auto [at, is_new] = by_meaning.try_emplace(meaning, Seen{digest, i}); !is_new && at->second.other != digest)
      return differs(i, "documents " + std::to_string(at->second.document) + " and " + std::to_string(i) + " are equivalent, their digests differ");
  }
  if (!call.probes.empty())
    if (GateResult bad = same_in_probe(got, call.probes.at(0), 0, [count](std::int64_t i) { return count - 1 - i; }, "the reversed batch")) return bad;
  if (call.probes.size() > 1)
    if (GateResult bad = same_in_probe(got, call.probes.at(1), count / 2, [count](std::int64_t i) { return i - count / 2; }, "the second half alone")) return bad;
  return std::nullopt;
}

// The batch reversed, and its second half alone.
std::vector<Probe> probes(const TensorRefMap& inputs) {
  const Batch documents = batch(inputs);
  const std::int64_t count = documents.count();
  const auto taken = [&](std::int64_t size, const std::function<std::int64_t(std::int64_t)>& which) {
    Probe probe;
    std::vector<std::int64_t> offsets = {0};
    for (std::int64_t i = 0; i < size; ++i) offsets.push_back(offsets.back() + static_cast<std::int64_t>(documents.document(which(i)).size()));
    Tensor& bytes = probe.inputs.add("doc_bytes", Tensor(Dtype::u8, {offsets.back()}));
    for (std::int64_t i = 0; i < size; ++i) {
      const std::string_view document = documents.document(which(i));
      if (!document.empty()) std::memcpy(bytes.data() + offsets[static_cast<std::size_t>(i)], document.data(), document.size());
    }
    probe.inputs.add("doc_offsets", Tensor::of<std::int64_t>({size + 1}, offsets));
    return probe;
  };
  std::vector<Probe> list;
  list.push_back(taken(count, [count](std::int64_t i) { return count - 1 - i; }));
  list.push_back(taken(count - count / 2, [count](std::int64_t i) { return count / 2 + i; }));
  return list;
}

double distinct_digests(const TensorRefMap&, const TensorRefMap& outputs) {
  const TensorRef& digests = outputs.at("digest");
  std::unordered_set<Digest, DigestHash> distinct;
  distinct.reserve(static_cast<std::size_t>(digests.shape[0]));
  for (std::int64_t i = 0; i < digests.shape[0]; ++i) distinct.insert(digest_at(digests, i));
  return static_cast<double>(distinct.size());
}

Task make() {
  Task task;
  task.name = "compile_cache_key_canon";
  task.group = "compiler";
  task.summary = "Short identities of compile requests: equal for equivalent ones, different for all others";
  task.semantics =
      "digest[i] is a 128-bit function of document i alone; digest[i] = digest[j] if and only if the documents have equal canonical signatures: JSON without regard to white space, escapes and key "
      "order, numbers by exact decimal value, defaults and aliases of the known fields applied, strides that say nothing dropped, symbols numbered by first occurrence, flags by their last setting, "
      "request_id, timestamp, user, trace_id and priority ignored, everything else significant.";
  task.contract.input("doc_bytes", {Dtype::u8}, {"B"}, "UTF-8 JSON documents, one after another");
  task.contract.input("doc_offsets", {Dtype::i64}, {"N+1"}, "document i is bytes doc_offsets[i] .. doc_offsets[i+1]-1", "last entry = B").last_offset = Extent("B");
  task.contract.output("digest", {Dtype::u8}, {"N", "16"}, "identity of each document, any 128-bit function with the property of the gate");
  task.contract.rule("bad_document",
                     "a document is not valid UTF-8, not RFC 8259 or no object; has a key twice in one object (after unescaping), nesting deeper than 64, a number longer than 64 characters or with an "
                     "exponent beyond +-9999",
                     CheckedBy::variant, [](const TensorRefMap& in) { return first_fault(in, reference::Fault::bad_document, "bad_document", reference::read_syntax); });
  task.contract.rule("bad_field", "a known field of another type or out of range: op missing or null, a bad symbol, a stride of another length, a bad flag, ...", CheckedBy::variant,
                     [](const TensorRefMap& in) { return first_fault(in, reference::Fault::bad_field, "bad_field", reference::read); });
  const std::vector<std::string> names = {"doc_bytes", "doc_offsets", "digest"};
  task.variants = {
      {"reference", Kernel({bind(reference::canonical_digests, names)}), "the canonical signature as text, rule by rule, and its XXH3 hash"},
      {"baseline", Kernel({bind(baseline::canonical_digests, names)}), "tree of heap nodes, written out again in the order given, SHA-256"},
      {"cpu", Kernel({bind(cpu::canonical_digests, names)}), "no tree: tokens found by SIMD, canonical pieces hashed as they are read, members summed without order, documents over threads"},
  };
  const auto requests = [](std::int64_t signatures) { return [signatures](Random& random) { return random_requests(random, signatures, 4); }; };
  task.workloads = {
      {"smoke", "300 documents: 75 signatures, each in 4 spellings", {requests(75)}, 0.004},
      {"standard", "40,000 documents of 900 bytes on average: 10,000 signatures, each in 4 spellings; a quarter of them near twins", {requests(10000)}, 0.5},
  };
  task.cases = fixed_cases();
  task.random_case = [](Random& random) { return random_requests(random, random.between(0, 12), random.between(1, 4)); };
  task.gate.text =
      "property: for all documents i, j of the batch: digest[i] = digest[j] if and only if they are equivalent. The digest is a function of the document alone: the solution runs again on the batch "
      "reversed and on its second half alone, with the same 16 bytes for every document";
  task.gate.check = check;
  task.gate.baseline_is_expected = false;
  task.gate.probes = probes;
  task.expected = expected;
  task.metric.text = "(D_base / D) * time, D = distinct digests over the batch";
  task.metric.objective = distinct_digests;
  task.floor = [](const TensorRefMap& inputs) {
    const auto count = static_cast<double>(inputs.at("doc_offsets").size() - 1);
    return Floor{static_cast<double>(inputs.at("doc_bytes").bytes()) + 8 * (count + 1) + 16 * count, 0};
  };
  task.floor_text = "B bytes and 8*(N+1) read + 16*N written, no operations";
  return task;
}

}  // namespace
}  // namespace compile_cache_key_canon

namespace tasks {
const Task& compile_cache_key_canon() {
  static const Task task = faibench::compile_cache_key_canon::make();
  return task;
}
}  // namespace tasks

}  // namespace faibench
