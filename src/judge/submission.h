/* What a submission implements: a shared library with one C function. `faibench run --variant library:PATH` judges it like any other variant.
 * The library runs in a process of its own, without MPI; it sees no expected answer, and its clock, exit code and stdout count for nothing.
 * C11 and C++. */
#ifndef FAIBENCH_SUBMISSION_H
#define FAIBENCH_SUBMISSION_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum faibench_dtype { FAIBENCH_F16, FAIBENCH_BF16, FAIBENCH_F32, FAIBENCH_F64, FAIBENCH_I8, FAIBENCH_U8, FAIBENCH_I16, FAIBENCH_I32, FAIBENCH_U32, FAIBENCH_I64, FAIBENCH_U64, FAIBENCH_BOOL };

/* Row-major, contiguous, 64-byte aligned. Scalars have rank 0. */
typedef struct faibench_tensor {
  const char* name;
  int32_t dtype; /* enum faibench_dtype */
  int32_t rank;
  const int64_t* extents;
  void* data;
} faibench_tensor;

typedef struct faibench_reply {
  char code[64];       /* on rejection: the contract's code */
  char message[1024];  /* on rejection or failure: one line that names tensor, index and value */
  int64_t lengths[64]; /* true first extent of output i where it depends on the data; -1 (as given): as laid out */
} faibench_reply;

/* Returns 0: outputs written; 1: input rejected (nothing written); anything else: failed.
 * The general codes and the contract's cheap rules were checked before; `faibench show TASK` says which rules are left to the variant.
 * In-place tensors come as inputs and again, with the same content, as outputs. */
int faibench_run(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply);

/* Only for tasks that are judged over many steps, and may be left out: the receiver of what faibench_run put into its payload, in a process of its own. Inputs and outputs
 * as `faibench show TASK` lists them; without it the task's own decoder receives. */
int faibench_decode(const faibench_tensor* inputs, int32_t input_count, const faibench_tensor* outputs, int32_t output_count, faibench_reply* reply);

#ifdef __cplusplus
}
#endif
#endif
