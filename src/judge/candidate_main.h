// The candidate process: loads one variant and answers calls until the judge kills it.
#pragma once

namespace faibench {

/// Never returns while the judge lives. The exit code means nothing to the judge.
int candidate_main();

}  // namespace faibench
