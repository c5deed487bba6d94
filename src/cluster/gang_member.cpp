#include "cluster/gang_member.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tensor/random.h"

namespace faibench {
namespace {

constexpr std::byte poison{0xa5};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::uint64_t hash_of(const TensorMap& tensors) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : tensors) hash = stable_hash({reinterpret_cast<const char*>(tensor.data()), static_cast<std::size_t>(tensor.bytes())}, hash);
  return hash;
}

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

GangMember::Call GangMember::call(const MultiRank::RankVariant& variant, const TensorMap& shard) {
  Call result;
  const TensorRefMap inputs = refs(shard);
  Dims dims;
  result.rejected = form_.contract.check_general(inputs, dims);
  if (!result.rejected) result.rejected = form_.contract.check_rules(inputs, CheckedBy::runner);
  if (any(result.rejected.has_value())) return result;

  result.outputs = allocate_outputs(form_.contract, inputs);
  for (auto& [name, tensor] : result.outputs) {
    if (!shard.find(name)) std::memset(tensor.data(), static_cast<int>(poison), static_cast<std::size_t>(tensor.bytes()));
  }
  TensorRefMap outputs = refs(result.outputs);
  const std::uint64_t inputs_before = hash_of(shard), outputs_before = hash_of(result.outputs);
  MultiRank::Call call{communicator_, {inputs, outputs, {}}};
  communicator_.barrier();
  const double start = now();
  result.rejected = variant.run(call);
  result.seconds = now() - start;
  result.untouched = hash_of(result.outputs) == outputs_before;
  result.input_changed = hash_of(shard) != inputs_before;
  if (!result.rejected) cut(form_.contract, inputs, dims, call.arguments.lengths, result.outputs);
  return result;
}

std::optional<std::string> GangMember::judge(const TensorMap& whole, const Call& call) {
  if (const int rank = first_that(call.rejected.has_value()); rank >= 0) {
    return "gang rank " + std::to_string(rank) + " rejected a valid input" + (call.rejected ? " with " + call.rejected->code + " (" + call.rejected->message + ")" : "");
  }
  if (const int rank = first_that(call.input_changed); rank >= 0) return "gang rank " + std::to_string(rank) + " changed its input";
  const std::vector<TensorMap> outputs = gather_outputs(call.outputs);
  std::optional<std::string> wrong;
  if (leads()) {
    if (const GateResult mismatch = form_.gate(refs(whole), outputs)) wrong = to_string(*mismatch);
  }
  if (from_leader(wrong ? 1 : 0) != 0 && !wrong) wrong = "the gate failed";
  return wrong;
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
