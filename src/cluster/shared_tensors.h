// Tensors of registered variants: in memory that the ranks of a node share.
#pragma once
#include <memory>
#include <string>

#include "communicator/communicator.h"
#include "task/task.h"

namespace faibench {

/// A registered variant's tensors cannot lie in memory shared between ranks; all ranks see it alike.
struct NotShared {
  std::string why;
};

/// The room for them: grows, never shrinks.
class SharedTensors {
 public:
  /// Collective. Copies a rank's tensors to shared memory and lets the references point there: one block holds all, each where the largest of any rank has room, in the contract's order, so that places
  /// are equal on all ranks. Throws NotShared where there is no such memory.
  void place(Communicator& communicator, const Contract& contract, TensorRefMap& inputs, TensorRefMap& outputs);

 private:
  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace faibench
