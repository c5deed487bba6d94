// What every multi-rank form is held to under mpirun: right on every rank, or rejected alike on all, outputs untouched.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/gather_outputs.h"
#include "communicator/mpi_communicator.h"
#include "task/task.h"

namespace faibench::testing_support {

inline const MultiRank::RankVariant& variant_of(const MultiRank& form, std::string_view name) {
  for (const auto& variant : form.variants)
    if (variant.name == name) return variant;
  throw Error(Error::Kind::internal, "no variant " + std::string(name));
}

/// Outputs of data-dependent length, cut to what the call said.
inline void cut_to_lengths(const Contract& contract, const TensorRefMap& inputs, const Dims& lengths, TensorMap& outputs) {
  Dims dims;
  EXPECT_FALSE(contract.check_general(inputs, dims));
  for (const auto& output : contract.output_shapes(inputs, dims)) {
    if (output.length.empty()) continue;
    TensorRef shorter = outputs.at(output.name).ref();
    EXPECT_LE(lengths.find(output.length).value(), shorter.shape[0]) << output.name;
    shorter.shape[0] = lengths.find(output.length).value();
    outputs.at(output.name) = Tensor::copy_of(shorter);
  }
}

/// One rank's part of a call.
struct RankResult {
  Rejected rejected;
  TensorMap outputs;           ///< cut to their lengths, unless it was rejected
  bool untouched = false;      ///< no byte of any output was written
  bool rest_untouched = true;  ///< nor one past those lengths
};

/// One call as the runner makes it after its own checks: outputs poisoned, and all tensors of a registered variant in memory that ranks share, where there is some.
inline RankResult run_on_ranks(const MultiRank& form, Communicator& communicator, const TensorMap& shard, const MultiRank::RankVariant& variant) {
  constexpr std::byte poison{0xCB};
  const auto is_poison = [](const Tensor& tensor, std::int64_t from) {
    for (std::int64_t i = from; i < tensor.bytes(); ++i)
      if (tensor.data()[i] != poison) return false;
    return true;
  };
  TensorRefMap inputs = refs(shard);
  RankResult result{{}, allocate_outputs(form.contract, inputs)};
  for (auto& [name, tensor] : result.outputs)
    if (tensor.bytes() > 0) std::memset(tensor.data(), std::to_integer<int>(poison), static_cast<std::size_t>(tensor.bytes()));
  TensorRefMap outputs = refs(result.outputs);
  std::vector<std::unique_ptr<SharedMemory>> memories;
  const auto move_to_shared = [&](TensorRef& tensor) {
    memories.push_back(communicator.share(tensor.bytes()));
    if (!memories.back()) return;
    if (tensor.bytes() > 0) std::memcpy(memories.back()->own(), tensor.data, static_cast<std::size_t>(tensor.bytes()));
    tensor.data = memories.back()->own();
  };
  if (variant.registered) {
    for (auto& [name, tensor] : inputs) move_to_shared(tensor);
    for (auto& [name, tensor] : outputs) move_to_shared(tensor);
  }
  MultiRank::Call call{communicator, Arguments{inputs, outputs, {}}};
  result.rejected = variant.run(call);
  for (auto& [name, tensor] : result.outputs)
    if (outputs.at(name).data != tensor.data() && tensor.bytes() > 0) std::memcpy(tensor.data(), outputs.at(name).data, static_cast<std::size_t>(tensor.bytes()));
  result.untouched = true;
  for (const auto& [name, tensor] : result.outputs) result.untouched &= is_poison(tensor, 0);
  if (result.rejected) return result;
  const TensorMap whole = clone(result.outputs);
  cut_to_lengths(form.contract, inputs, call.arguments.lengths, result.outputs);
  for (const auto& [name, tensor] : whole)
    if (tensor.bytes() > result.outputs.at(name).bytes()) result.rest_untouched &= is_poison(tensor, result.outputs.at(name).bytes());
  return result;
}

/// Collective over `communicator`.
inline void expect_right(const MultiRank& form, Communicator& communicator, const TensorMap& whole, const RankResult& result) {
  EXPECT_FALSE(result.rejected) << result.rejected->message;
  const GateResult bad = form.gate(refs(whole), gather_outputs(communicator, result.outputs));
  EXPECT_FALSE(bad) << to_string(*bad);
}

inline void expect_rejection(const RankResult& result, const std::string& code) {
  EXPECT_EQ(result.rejected ? result.rejected->code : "", code);
  EXPECT_TRUE(result.untouched) << "written although rejected";
}

/// Whether the runner finds fault with the shard of any rank, with this code: then nobody runs.
inline bool found_by_the_runner(const MultiRank& form, Communicator& communicator, const TensorMap& shard, const std::string& code) {
  Dims dims;
  Rejected own = form.contract.check_general(refs(shard), dims);
  if (!own) own = form.contract.check_rules(refs(shard), CheckedBy::runner);
  if (own) { EXPECT_EQ(own->code, code) << own->message; }
  std::int64_t found = own.has_value();
  communicator.all_reduce(&found, &found, 1, Dtype::i64, Reduce::max);
  if (found) { EXPECT_NE(code, "") << "a valid shard is rejected by some rank"; }
  return found != 0;
}

/// Every case through these variants on the ranks of `world`; `also`, where given, looks at what is right by the gate.
inline void expect_every_case_right_or_rejected_alike(const MultiRank& form, Communicator& world, std::span<const MultiRank::RankVariant> variants,
                                                      const std::function<void(const MultiRank::RankVariant&, const TensorMap& whole, const RankResult&)>& also = {}) {
  const auto gathering = mpi_world();  // whole messages, whatever those of `world` are cut to
  for (const auto& c : form.cases) {
    SCOPED_TRACE(c.name + " on rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()));
    Random random(c.name, "", 1, 0);
    const TensorMap whole = c.inputs(random, world.size());
    TensorMap shard = form.shard(whole, world.rank(), world.size());
    const std::string code = c.damage && c.code ? c.code(world.size()) : "";
    if (!code.empty()) c.damage(random, shard, world.rank(), world.size());
    if (found_by_the_runner(form, world, shard, code)) continue;
    for (const auto& variant : variants) {
      SCOPED_TRACE(variant.name);
      const RankResult result = run_on_ranks(form, world, shard, variant);
      if (!code.empty()) {
        expect_rejection(result, code);
        continue;
      }
      expect_right(form, *gathering, whole, result);
      if (also && !result.rejected) also(variant, whole, result);
    }
  }
}

/// The same for all variants, with messages longer than one call takes and without.
inline void expect_every_case_right_or_rejected_alike(const MultiRank& form) {
  for (const std::int64_t chunk_limit : {std::int64_t{1000}, mpi_chunk_limit}) {  // the first: messages longer than one call takes are cut
    SCOPED_TRACE(chunk_limit);
    expect_every_case_right_or_rejected_alike(form, *mpi_world(chunk_limit), form.variants);
  }
}

}  // namespace faibench::testing_support
