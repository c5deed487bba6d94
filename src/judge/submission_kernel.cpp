#include "judge/submission_kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "judge/submission.h"

namespace faibench {
namespace {

using Run = decltype(&faibench_run);

std::vector<faibench_tensor> described(const TensorRefMap& tensors) {
  std::vector<faibench_tensor> list;
  for (const auto& [name, tensor] : tensors)
    list.push_back({name.c_str(), static_cast<std::int32_t>(tensor.dtype), tensor.rank(), tensor.shape.data(), tensor.data});
  return list;
}

template <std::size_t N>
std::string text_of(const char (&field)[N]) { return std::string(field, strnlen(field, N)); }

Rejected run(Run function, Arguments& arguments, faibench_reply& reply) {
  const auto inputs = described(arguments.inputs), outputs = described(arguments.outputs);
  std::memset(&reply, 0, sizeof reply);
  std::fill(std::begin(reply.lengths), std::end(reply.lengths), -1);
  const int result = function(inputs.data(), static_cast<std::int32_t>(inputs.size()), outputs.data(), static_cast<std::int32_t>(outputs.size()), &reply);
  if (result == 1) return Rejection{text_of(reply.code), "", -1, text_of(reply.message)};
  if (result != 0) throw Error(Error::Kind::internal, "faibench_run returned " + std::to_string(result) + ": " + text_of(reply.message));
  std::size_t i = 0;
  for (auto& [name, tensor] : arguments.outputs) {
    if (reply.lengths[i] >= 0 && tensor.rank() > 0) arguments.lengths.set(name, reply.lengths[i]);
    ++i;
  }
  return std::nullopt;
}

}  // namespace

Kernel load_submission(const std::string& path, const char* symbol) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(Error::Kind::bad_input, dlerror());
  const auto function = reinterpret_cast<Run>(dlsym(library, symbol));
  if (!function && std::strcmp(symbol, "faibench_decode") == 0) return {};  // may be left out
  if (!function) throw Error(Error::Kind::bad_input, path + ": no function faibench_run (see submission.h)");
  return Kernel({{[](const TensorRefMap&, const TensorRefMap&) { return true; },
                  [function](Arguments& arguments) {
                    faibench_reply reply;
                    return run(function, arguments, reply);
                  }}});
}

}  // namespace faibench
