#include "scale/shard.h"

#include <algorithm>
#include <cstring>

#include "scale/measure.h"

namespace faibench::scale {
namespace {

constexpr std::byte poison{0xa5};

}  // namespace

Shard::Shard(Communicator& communicator, Communicator* transport, const Task& task, const MultiRank::RankVariant& variant, TensorMap inputs)
    : communicator_(communicator), transport_(transport), form_(*task.multi_rank), variant_(variant), member_(communicator, transport, task), inputs_(std::move(inputs)), outputs_(allocate_outputs(form_.contract, refs(inputs_))),
      input_refs_(refs(inputs_)), output_refs_(refs(outputs_)) {
  for (const auto& [name, tensor] : outputs_) in_place_ = in_place_ || inputs_.find(name) != nullptr;
  if (variant.registered) {
    try {
      shared_.place(communicator, form_.contract, input_refs_, output_refs_);
    } catch (const NotShared& none) {
      refused_ = none.why;
    }
  }
  inputs_before_ = hash_of(input_refs_);
}

void Shard::poison_outputs() {
  for (auto& [name, ref] : output_refs_) {
    if (const Tensor* input = inputs_.find(name)) std::memcpy(ref.data, input->data(), static_cast<std::size_t>(ref.bytes()));
    else std::memset(ref.data, static_cast<int>(poison), static_cast<std::size_t>(ref.bytes()));
  }
}

void Shard::call() {
  MultiRank::Call call{transport_ ? *transport_ : communicator_, {input_refs_, output_refs_, {}}};
  rejected_ = variant_.run(call);
  lengths_ = call.arguments.lengths;
}

std::optional<std::string> Shard::check(const TensorMap& whole) {
  poison_outputs();
  own_barrier(communicator_);
  const Executed before = executed_so_far();
  call();
  for (const std::size_t level : {0, 1}) sent_[level] = executed_so_far().bytes_sent[level] - before.bytes_sent[level];
  GangMember::Call made;
  made.rejected = rejected_;
  made.input_changed = hash_of(input_refs_) != inputs_before_;
  if (!rejected_) {
    Dims dims;
    (void)form_.contract.check_general(refs(inputs_), dims);
    for (const auto& form : form_.contract.output_shapes(refs(inputs_), dims)) {
      TensorRef ref = output_refs_.at(form.name);
      if (!form.length.empty()) {
        if (const auto length = lengths_.find(form.length)) ref.shape[0] = std::clamp<std::int64_t>(*length, 0, ref.shape[0]);
      }
      made.outputs.add(form.name, Tensor::copy_of(ref));
    }
  }
  return member_.judge(whole, made);
}

}  // namespace faibench::scale
