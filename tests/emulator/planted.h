// Small kernels, right ones and ones with a bug of each kind that the emulator must find.
#pragma once
#include <cstdint>

namespace faibench::planted {

/// y[i] = x[i] + 1 for i < n, and what goes wrong on the way.
enum class Bug { none, past_the_end, before_the_start, writes_input, misaligned };
void add_one(const float* x, float* y, int n, Bug bug);
/// The same of one number, by a host that takes device memory for its own.
void add_one_on_the_host(const float* x, float* y);
float read_on_the_host(const float* x);

/// y = x with each block of 64 reversed, through shared memory.
enum class SharedBug { none, no_barrier, no_second_barrier, half_written, past_the_array, past_dynamic_memory };
void reverse_blocks(const float* x, float* y, int blocks, SharedBug bug);

/// Sums of 64 numbers by shuffles, barriers and an atomic.
enum class SyncBug { none, early_exit, two_barriers, missing_lane, other_mask, read_outside_mask, plain_add };
void sum_blocks(const int* x, int* sums, int blocks, SyncBug bug);

/// Copies 32 numbers a block into shared memory asynchronously, and out again. `waits` false: reads before they have come.
void copy_through(const float* x, float* y, int blocks, bool waits);

/// d[16, 8] = a[16, 16] * b[16, 8] in 16-bit floats, by one warp: ldmatrix and mma. `swapped`: two registers of the fragment of a change places.
void multiply_half(const void* a, const void* b, float* d, bool bfloat, bool swapped);
/// d[16, 8] = a[16, 8] * b[8, 8] in tf32.
void multiply_tf32(const float* a, const float* b, float* d);

/// Who a thread is: out[i] for thread i of the grid = 1000000 * z + 1000 * y + x of its place in the whole.
void number_threads(int* out, int blocks_x, int blocks_y, int threads_x, int threads_y);

void too_many_threads(float* y);

}  // namespace faibench::planted
