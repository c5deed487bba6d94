// What the coordinator and the ranks say to each other. Knows no transport.
#pragma once
#include <string>
#include <string_view>

namespace faibench {

/// Not Message: that is a message of a schedule, in the same namespace.
struct RankMessage {
  enum class Type {
    // Coordinator to rank.
    judge,      ///< item; text: JudgeJob. Judge it and answer `verdict` or `judge_failed`
    calibrate,  ///< text: JudgeJob. Measure this node and answer `peaks` or `judge_failed`
    gang,       ///< item; text: GangOrder. Run it together and answer `gang_done` each; the gang's first rank sends the `verdict` before
    stop,       ///< kill what runs, answer `bye`, leave
    end,        ///< nothing more to do: answer `bye`, leave
    // Rank to coordinator.
    verdict,       ///< item; text: Record
    peaks,         ///< text: MachinePeaks
    judge_failed,  ///< item (-1: the calibration); text: why. The judge itself died, not its candidate
    gang_done,     ///< item
    stage,         ///< item; text: what its judge is doing
    fatal,         ///< item: exit code; text: one line. This rank cannot go on
    signal,        ///< item: the signal's number. This rank was told to stop
    bye,           ///< the last message of a rank
  };
  Type type;
  int item = -1;
  std::string text;
  friend bool operator==(const RankMessage&, const RankMessage&) = default;
};

/// As bytes and back. decode throws Error(mpi) on anything that encode did not make.
std::string encode(const RankMessage& message);
RankMessage decode(std::string_view bytes);
std::string_view name_of(RankMessage::Type type);

}  // namespace faibench
