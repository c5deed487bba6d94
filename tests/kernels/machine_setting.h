// Thread count and instruction set of a test, put back when it ends.
#pragma once
#include <gtest/gtest.h>
#include <omp.h>

#include <cstdint>

#include "hwy/targets.h"

namespace faibench::testing_support {

/// Puts the thread count back.
class MachineSetting : public testing::Test {
 protected:
  ~MachineSetting() override { omp_set_num_threads(threads_); }

 private:
  int threads_ = omp_get_max_threads();
};

/// Calls check(target) under each instruction set that a variant is written for and the machine has; then all of them may be chosen again.
template <class Check>
void under_every_instruction_set(Check check) {
  struct Only {
    explicit Only(std::int64_t target) { choose(target); }
    ~Only() { choose(0); }
    static void choose(std::int64_t targets) {  // 0: all that the machine has
      hwy::SetSupportedTargetsForTest(targets);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());  // else what the first call chose would go on
    }
  };
  int tried = 0;
  for (const std::int64_t target : {HWY_SCALAR, HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    const Only only(target);
    check(target);
    ++tried;
  }
  EXPECT_GE(tried, 1);
}

}  // namespace faibench::testing_support
