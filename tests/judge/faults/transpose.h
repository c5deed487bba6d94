// The right answer, for submissions that fail in other ways.
#pragma once
#include "judge/submission.h"

inline void right_transpose(const faibench_tensor& x, const faibench_tensor& y) {
  const int64_t M = x.extents[0], N = x.extents[1];
  const float* from = static_cast<const float*>(x.data);
  float* to = static_cast<float*>(y.data);
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) to[j * M + i] = from[i * N + j];
}
