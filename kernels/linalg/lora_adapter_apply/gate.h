// The gate of lora_adapter_apply: a bound on every element from the sizes of its own terms.
#pragma once
#include "task/gate.h"

namespace faibench::lora_adapter_apply {

/// Computes ref and S in f64 from the inputs; reads no expected output.
GateResult check_y(const GateCall& call);

}  // namespace faibench::lora_adapter_apply
