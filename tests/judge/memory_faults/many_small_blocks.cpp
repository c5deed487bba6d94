// Takes too much in blocks that come from the heap, not from mappings of their own, and frees them all.
#include <vector>

#include "hold.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  std::vector<void*> blocks;
  for (int i = 0; i < 24 * 64; ++i) touch(blocks.emplace_back(std::malloc(mebibyte / 64)), mebibyte / 64);
  for (void* block : blocks) std::free(block);
  right_transpose(inputs[0], outputs[0]);
  return 0;
}
