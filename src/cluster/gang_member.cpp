#include "cluster/gang_member.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "communicator/nccl_communicator.h"
#include "tensor/random.h"

namespace faibench {
namespace {

constexpr std::byte poison{0xa5};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::unique_ptr<Communicator> transport_of(const MultiRank::RankVariant& variant, Communicator& communicator, std::string& why_not) {
  why_not.clear();
  if (!variant.on_nccl) return nullptr;
  auto transport = nccl_communicator(communicator, why_not);
  if (!transport && why_not.empty()) why_not = "no GPU";
  return transport;
}

std::uint64_t hash_of(const TensorRefMap& tensors) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : tensors) hash = XXH3_64bits_withSeed(tensor.data, static_cast<std::size_t>(tensor.bytes()), hash);
  return hash;
}

namespace {

// Cuts outputs of data-dependent length to what the call said.
void cut(const Contract& contract, const TensorRefMap& inputs, const Dims& dims, const Dims& lengths, TensorMap& outputs) {
  for (const auto& form : contract.output_shapes(inputs, dims)) {
    if (form.length.empty()) continue;
    const auto length = lengths.find(form.length);
    Tensor& tensor = outputs.at(form.name);
    if (!length || *length < 0 || *length > tensor.shape()[0]) throw Error(Error::Kind::internal, "output " + form.name + " has no valid length after the call");
    TensorRef shorter = tensor.ref();
    shorter.shape[0] = *length;
    tensor = Tensor::copy_of(shorter);
  }
}

}  // namespace

TensorMap GangMember::whole(const MultiRank::RankWorkload& workload, std::uint64_t seed, std::uint64_t repetition) const {
  Random random(task_.name, "ranks " + workload.name, seed, repetition);
  return workload.inputs(random, size());
}

GangMember::Input GangMember::input(const MultiRank::RankWorkload& workload, std::uint64_t seed, std::uint64_t repetition) const {
  Input input;
  if (workload.own) {
    Random random(task_.name, "ranks " + workload.name, seed, repetition);
    input.shard = workload.own(random, rank(), size());
    if (!leads()) return input;
  }
  input.whole = whole(workload, seed, repetition);
  if (!workload.own) input.shard = shard(input.whole);
  if (!leads()) input.whole = {};
  return input;
}

std::string GangMember::report(const MultiRank::RankVariant& variant, const TensorMap& shard) {
  if (!variant.report || variant.registered) return {};
  const TensorRefMap inputs = refs(shard);
  TensorMap outputs = allocate_outputs(form_.contract, inputs);
  TensorRefMap room = refs(outputs);
  MultiRank::Call call{variant.on_nccl && transport_ ? *transport_ : communicator_, {inputs, room, {}}};
  communicator_.barrier();
  return variant.report(call);
}

GangMember::Call GangMember::call(const MultiRank::RankVariant& variant, const TensorMap& shard) {
  Call result;
  TensorRefMap inputs = refs(shard);
  Dims dims;
  result.rejected = form_.contract.check_general(inputs, dims);
  if (!result.rejected) result.rejected = form_.contract.check_rules(inputs, CheckedBy::runner);
  if (const int first = first_that(result.rejected.has_value()); first >= 0) {
    const std::string code = text_of(first, result.rejected ? result.rejected->code : ""), message = text_of(first, result.rejected ? result.rejected->message : "");
    if (!result.rejected) result.rejected = reject(code, "", -1, "on rank " + std::to_string(first), message);
    result.rejected->code = code;
    return result;
  }

  result.outputs = allocate_outputs(form_.contract, inputs);
  for (auto& [name, tensor] : result.outputs) {
    if (!shard.find(name)) std::memset(tensor.data(), static_cast<int>(poison), static_cast<std::size_t>(tensor.bytes()));
  }
  TensorRefMap outputs = refs(result.outputs);
  if (variant.registered) shared_.place(communicator_, form_.contract, inputs, outputs);
  const std::uint64_t inputs_before = hash_of(inputs), outputs_before = hash_of(outputs);
  MultiRank::Call call{variant.on_nccl && transport_ ? *transport_ : communicator_, {inputs, outputs, {}}};
  communicator_.barrier();
  const double start = now();
  result.rejected = variant.run(call);
  result.seconds = now() - start;
  result.untouched = hash_of(outputs) == outputs_before;
  result.input_changed = hash_of(inputs) != inputs_before;
  if (variant.registered) {
    for (auto& [name, tensor] : result.outputs) {
      if (tensor.bytes() > 0) std::memcpy(tensor.data(), outputs.at(name).data, static_cast<std::size_t>(tensor.bytes()));
    }
  }
  if (!result.rejected) cut(form_.contract, inputs, dims, call.arguments.lengths, result.outputs);
  return result;
}

std::optional<std::string> GangMember::judge(const TensorMap& whole, const Call& call) {
  if (const int rank = first_that(call.rejected.has_value()); rank >= 0) {
    return text_of(rank, "gang rank " + std::to_string(rank) + " rejected a valid input" + (call.rejected ? " with " + call.rejected->code + " (" + call.rejected->message + ")" : ""));
  }
  if (const int rank = first_that(call.input_changed); rank >= 0) return "gang rank " + std::to_string(rank) + " changed its input";
  if (auto differs = differing_output(call.outputs)) return differs;
  const std::vector<TensorMap> outputs = gather_outputs(call.outputs);
  std::string wrong;
  if (leads()) {
    if (const GateResult mismatch = form_.gate(refs(whole), outputs)) wrong = to_string(*mismatch);
  }
  wrong = text_of(0, std::move(wrong));
  return wrong.empty() ? std::nullopt : std::optional(wrong);
}

// 128 bits of each output, shape included, against the leader's.
std::optional<std::string> GangMember::differing_output(const TensorMap& outputs) {
  for (const std::string& name : form_.identical) {
    const Tensor* tensor = outputs.find(name);
    XXH128_hash_t hash{0, 0};
    if (tensor) {
      const std::uint64_t form = XXH3_64bits(tensor->shape().data(), tensor->shape().size() * sizeof(std::int64_t));
      hash = XXH3_128bits_withSeed(tensor->data(), static_cast<std::size_t>(tensor->bytes()), form);
    }
    std::uint64_t leaders[2] = {hash.low64, hash.high64};
    communicator_.broadcast(leaders, 2, Dtype::u64, 0);
    if (const int rank = first_that(leaders[0] != hash.low64 || leaders[1] != hash.high64); rank >= 0) {
      return "output " + name + " of gang rank " + std::to_string(rank) + " differs in bits from that of rank 0";
    }
  }
  return std::nullopt;
}

std::string GangMember::text_of(int root, std::string text) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  communicator_.broadcast(&length, 1, Dtype::i64, root);
  text.resize(static_cast<std::size_t>(length));
  communicator_.broadcast(text.data(), length, Dtype::u8, root);
  return text;
}

std::int64_t GangMember::highest(std::int64_t value) {
  std::int64_t result = value;
  communicator_.all_reduce(&value, &result, 1, Dtype::i64, Reduce::max);
  return result;
}

int GangMember::first_that(bool here) {
  const auto found = static_cast<int>(-highest(here ? -rank() : -size()));
  return found == size() ? -1 : found;
}

std::int64_t GangMember::from_leader(std::int64_t value) {
  communicator_.broadcast(&value, 1, Dtype::i64, 0);
  return value;
}

std::vector<double> GangMember::slowest(std::vector<double> seconds) {
  std::vector<double> result(seconds.size());
  communicator_.all_reduce(seconds.data(), result.data(), static_cast<std::int64_t>(seconds.size()), Dtype::f64, Reduce::max);
  return result;
}

std::vector<std::vector<double>> GangMember::gather(const std::vector<double>& row) {
  const auto count = static_cast<std::int64_t>(row.size());
  if (!leads()) {
    communicator_.send(row.data(), count, Dtype::f64, 0);
    return {};
  }
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(size()), std::vector<double>(row.size()));
  rows[0] = row;
  for (int from = 1; from < size(); ++from) communicator_.receive(rows[static_cast<std::size_t>(from)].data(), count, Dtype::f64, from);
  return rows;
}

// Tensor by tensor: shape first (a variant may give any length), then the bytes, in chunks of the transport's own.
std::vector<TensorMap> GangMember::gather_outputs(const TensorMap& own) {
  std::vector<TensorMap> all;
  if (leads()) all.push_back(clone(own));
  for (int from = 1; from < size(); ++from) {
    if (leads()) all.emplace_back();
    for (const auto& [name, tensor] : own) {  // the contract's outputs: the same names and ranks everywhere
      Shape shape = tensor.shape();
      const auto dims = static_cast<std::int64_t>(shape.size());
      if (rank() == from) {
        communicator_.send(shape.data(), dims, Dtype::i64, 0);
        communicator_.send(tensor.data(), tensor.bytes(), Dtype::u8, 0);
      } else if (leads()) {
        communicator_.receive(shape.data(), dims, Dtype::i64, from);
        Tensor theirs(tensor.dtype(), shape);
        communicator_.receive(theirs.data(), theirs.bytes(), Dtype::u8, from);
        all.back().add(name, std::move(theirs));
      }
    }
  }
  return all;
}

}  // namespace faibench
