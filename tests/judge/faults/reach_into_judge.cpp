// Opens its judge's memory and output: wrong answers from here on if it succeeds, so that the verdict tells.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "transpose.h"

extern "C" int faibench_run(const faibench_tensor* inputs, int32_t, const faibench_tensor* outputs, int32_t, faibench_reply*) {
  right_transpose(inputs[0], outputs[0]);
  const std::string judge = "/proc/" + std::to_string(getppid());
  bool reached = open((judge + "/mem").c_str(), O_RDWR) >= 0 || open((judge + "/fd/1").c_str(), O_WRONLY) >= 0 || open((judge + "/fd/2").c_str(), O_WRONLY) >= 0;
  if (reached) std::memset(outputs[0].data, 0, static_cast<std::size_t>(4 * outputs[0].extents[0] * outputs[0].extents[1]));
  return 0;
}
