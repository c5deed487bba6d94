#include "task/kernel.h"

namespace faibench {

Rejected Kernel::operator()(Arguments& arguments) const {
  for (const Overload& overload : overloads_)
    if (overload.accepts(arguments.inputs, arguments.outputs)) return overload.call(arguments);
  throw Error(Error::Kind::internal, "no overload of this variant takes these dtypes");
}

}  // namespace faibench
