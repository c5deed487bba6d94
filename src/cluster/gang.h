// Multi-rank tasks: the ranks themselves run them, together.
#pragma once
#include <mpi.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/record.h"
#include "task/task.h"

namespace faibench {

/// What the coordinator asks of a gang. The same text goes to every member.
struct GangOrder {
  std::string task, variant, workload;
  std::vector<int> members;      ///< world ranks in gang order: gang rank i is members[i]
  std::uint64_t seed = 1;
  double budget_seconds = 10;
  double limit_seconds = 100;    ///< of the whole item
  double ref_speedup = 0;
  bool gate_only = false;
  int threads = 1;               ///< of each member
  bool oversubscribed = false;   ///< some host has fewer cores than members on it
};
std::string to_json(const GangOrder& order);
GangOrder gang_order_from_json(std::string_view text);

/// What a member needs of its surroundings.
struct GangSurroundings {
  MPI_Comm world = MPI_COMM_NULL;
  std::function<bool()> stop_wanted;  ///< this rank was told to stop: the gang agrees on it between blocks
  /// Ends all ranks at once with one line; does not return. Called from a second thread when the limit is over, and for errors that leave others waiting.
  std::function<void(const std::string& line)> abandon;
  std::function<void(const std::string& stage)> stage_begins;  ///< this member is in that stage from now on; may be empty
};

/// Called by every member with the task of that name; the shorter form looks it up among this build's tasks. The record comes on gang rank 0; it is empty elsewhere and where the gang agreed to stop.
std::optional<Record> run_gang(const GangOrder& order, const Task& task, const GangSurroundings& surroundings);
std::optional<Record> run_gang(const GangOrder& order, const GangSurroundings& surroundings);

}  // namespace faibench
