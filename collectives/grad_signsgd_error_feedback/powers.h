// Powers of two of the private formats: from a table, for what a receiver decodes must not depend on its mathematical library.
#pragma once
#include <cmath>

namespace faibench::grad_signsgd_error_feedback {

/// 2^(sixteenths/16).
inline double two_to_the(int sixteenths) {
  constexpr double steps[16] = {0x1.0p+0,           0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0, 0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
                                0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0, 0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0};
  return std::ldexp(steps[sixteenths & 15], sixteenths >> 4);
}

}  // namespace faibench::grad_signsgd_error_feedback
