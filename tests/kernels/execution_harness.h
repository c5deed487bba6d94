// A task's cpu variant under every number of threads and every instruction set that the runner may give it.
#pragma once
#include <omp.h>

#include <functional>

#include "kernels/machine_setting.h"
#include "kernels/task_harness.h"

namespace faibench::testing_support {

/// All cases and 30 random ones on 1, 2 and 3 threads; `also` is called under each as well.
inline void check_on_threads(const Task& task, const std::function<void(int threads)>& also = {}) {
  const int before = omp_get_max_threads();
  for (int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    SCOPED_TRACE(threads);
    check_all_cases(task, "cpu");
    check_random_cases(task, "cpu", 30);
    if (also) also(threads);
  }
  omp_set_num_threads(before);
}

/// All cases and 50 random ones under each instruction set; `also` is called under each as well.
inline void check_on_instruction_sets(const Task& task, const std::function<void()>& also = {}) {
  under_every_instruction_set([&](std::int64_t) {
    check_all_cases(task, "cpu");
    check_random_cases(task, "cpu", 50);
    if (also) also();
  });
}

}  // namespace faibench::testing_support
