// The gate of sgemm_register_blocktiling: the K-scaled bound and the exact rule.
#pragma once
#include "task/gate.h"

namespace faibench::sgemm_register_blocktiling {

/// Computes alpha*A@B + beta*C and |alpha|*|A|@|B| + |beta*C| in f64 from the inputs; needs no expected output.
GateResult check_product(const GateCall& call);

}  // namespace faibench::sgemm_register_blocktiling
