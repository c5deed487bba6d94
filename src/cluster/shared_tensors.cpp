#include "cluster/shared_tensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace faibench {

void SharedTensors::place(Communicator& communicator, const Contract& contract, TensorRefMap& inputs, TensorRefMap& outputs) {
  constexpr std::int64_t alignment = 4096;
  std::vector<TensorRef*> tensors;
  for (const TensorSpec& spec : contract.inputs()) tensors.push_back(inputs.find(spec.name));
  for (const TensorSpec& spec : contract.outputs()) tensors.push_back(outputs.find(spec.name));
  std::vector<std::int64_t> room;
  for (const TensorRef* tensor : tensors) room.push_back(tensor ? (std::max<std::int64_t>(tensor->bytes(), 1) + alignment - 1) / alignment * alignment : 0);
  communicator.all_reduce(room.data(), room.data(), static_cast<std::int64_t>(room.size()), Dtype::i64, Reduce::max);
  const std::int64_t wanted = std::accumulate(room.begin(), room.end(), std::int64_t{0});
  if (!memory_ || memory_->bytes() < wanted) {
    memory_.reset();
    memory_ = communicator.share(wanted);
    if (!memory_) throw NotShared{communicator.why_not_shared()};
  }
  std::byte* place = memory_->own();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t] && tensors[t]->bytes() > 0) std::memcpy(place, tensors[t]->data, static_cast<std::size_t>(tensors[t]->bytes()));
    if (tensors[t]) tensors[t]->data = place;
    place += room[t];
  }
}

}  // namespace faibench
