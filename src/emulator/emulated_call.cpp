#include "emulator/emulated_call.h"

#include <algorithm>
#include <memory>

#include "emulator/device.h"
#include "task/device_library.h"

namespace faibench::emulator {

Kernel emulated_call(const Kernel& kernel, const std::vector<std::string>& on_host) {
  const auto call = [kernel, on_host](Arguments& arguments) {
    std::vector<std::unique_ptr<Lent>> lent;
    const auto lend = [&](const std::string& name, const TensorRef& tensor, Lent::Access access) {
      lent.push_back(std::make_unique<Lent>(tensor.data, static_cast<std::size_t>(tensor.bytes()), name, access));
    };
    for (const auto& [name, tensor] : arguments.outputs) lend(name, tensor, Lent::Access::read_write);
    for (const auto& [name, tensor] : arguments.inputs) {
      const bool of_host = std::ranges::find(on_host, name) != on_host.end();
      if (tensor.rank() > 0 && !arguments.outputs.find(name)) lend(name, tensor, of_host ? Lent::Access::page_locked : Lent::Access::read);
    }
    Rejected rejected;
    if (const auto fault = run_call([&] { rejected = kernel(arguments); })) throw KernelFault(name_of(fault->kind), fault->message);
    return rejected;
  };
  return Kernel({{[](const TensorRefMap&, const TensorRefMap&) { return true; }, call}});
}

}  // namespace faibench::emulator
