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

 private:
  int threads_ = omp_get_max_threads();
};

}  // namespace faibench::testing_support
