// Chosen where the build found no CUDA toolkit with nccl.h.
#include "communicator/nccl_library.h"

namespace faibench {

std::unique_ptr<NcclLibrary> load_nccl(int /*device*/, std::string& why) {
  why = "this faibench was built without NCCL's header";
  return nullptr;
}

}  // namespace faibench
