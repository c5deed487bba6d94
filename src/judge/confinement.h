// What a submission may not do to others: signals, their memory, the scheduler.
#pragma once

namespace faibench {

/// For the rest of this process's life, and of all it starts: no capabilities, no signals to other processes, no look into their memory, no leaving the
/// process group, no change of priorities. Memory, files, threads and children stay free. What the kernel is too old for is left out: each layer stands alone.
void confine_submission();

}  // namespace faibench
