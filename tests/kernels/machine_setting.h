// Thread count and instruction set of a test, put back when it ends.
#pragma once
#include <gtest/gtest.h>
#include <omp.h>

#include <cstdint>

#include "hwy/targets.h"

namespace faibench::testing_support {

class MachineSetting : public testing::Test {
 protected:
  ~MachineSetting() override {
    omp_set_num_threads(threads_);
    use_targets(0);
  }
  /// Highway's targets that may be chosen from now on; 0: all that the machine has.
  static void use_targets(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  /// Calls check(target) under each instruction set that a variant is written for and the machine has.
  template <class Check>
  static void under_every_instruction_set(Check check) {
    int tried = 0;
    for (const std::int64_t target : {HWY_SCALAR, HWY_AVX2, HWY_AVX3}) {
      if ((hwy::SupportedTargets() & target) == 0) continue;
      SCOPED_TRACE(hwy::TargetName(target));
      use_targets(target);
      check(target);
      use_targets(0);
      ++tried;
    }
    EXPECT_GE(tried, 1);
  }

 private:
  int threads_ = omp_get_max_threads();
};

}  // namespace faibench::testing_support
