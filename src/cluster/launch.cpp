#include "cluster/launch.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cluster/deadline.h"
#include "tensor/error.h"

namespace faibench {
namespace {

constexpr double finalize_seconds = 10;
constexpr unsigned abort_seconds = 5;

int number(const char* text) { return text ? std::atoi(text) : 0; }

}  // namespace

MpiSession::MpiSession() {
  // The watchdog's MPI_Abort comes from a second thread; everything else is this thread's.
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) throw Error(Error::Kind::mpi, "MPI does not start");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

MpiSession::~MpiSession() {
  const Deadline deadline(finalize_seconds, [code = exit_code_] { _exit(code); });
  MPI_Finalize();
}

int MpiSession::first_rank_of_host() const {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  int first = rank_;
  MPI_Allreduce(&rank_, &first, 1, MPI_INT, MPI_MIN, host);
  MPI_Comm_free(&host);
  return first;
}

std::vector<std::string> MpiSession::gather(const std::string& text) const {
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_)), offsets(static_cast<std::size_t>(size_), 0);
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string all;
  if (rank_ == 0) {
    for (std::size_t r = 1; r < offsets.size(); ++r) offsets[r] = offsets[r - 1] + lengths[r - 1];
    all.resize(static_cast<std::size_t>(offsets.back() + lengths.back()));
  }
  MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (std::size_t r = 0; rank_ == 0 && r < offsets.size(); ++r) texts.push_back(all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  return texts;
}

int MpiSession::from_first(int number) const {
  MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return number;
}

int MpiSession::largest(int number) const {
  MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return number;
}

int MpiSession::conclude(int word, const std::optional<Error>& error) {
  word = from_first(word);
  set_exit_code(word);
  if (error && rank_ == 0) throw Error(*error);
  return word;
}

std::string MpiSession::text_from_first(std::string text) const {
  int length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(length));
  MPI_Bcast(text.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  return text;
}

void MpiSession::abandon(const std::string& line, int exit_code) {
  std::fprintf(stderr, "faibench: %s\n", line.c_str());
  std::fflush(stderr);
  signal(SIGALRM, SIG_DFL);
  alarm(abort_seconds);  // where MPI itself is what hangs
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  _exit(exit_code);
}

std::optional<std::string> wrong_launch(const LaunchView& view) {
  if (const int started = number(view.get("OMPI_COMM_WORLD_SIZE")); started > 0) {  // mpirun's word; within an allocation it may be any
    if (started == view.world_size) return std::nullopt;
    return "mpirun started " + std::to_string(started) + " ranks, but MPI sees " + std::to_string(view.world_size) + ": faibench was built with another MPI than this mpirun's; start it with that one's";
  }
  const char* step = view.get("SLURM_STEP_NUM_TASKS");
  const int tasks = number(step ? step : view.get("SLURM_NTASKS"));
  if (tasks <= 0 || tasks == view.world_size) return std::nullopt;
  return "Slurm has " + std::to_string(tasks) + " tasks here, but MPI sees " + std::to_string(view.world_size) + (view.world_size == 1 ? " rank" : " ranks") +
         ": they do not find each other. Start with 'srun --mpi=pmix faibench ...' or 'mpirun faibench ...' (to run alone inside an allocation: srun -n 1, or unset SLURM_NTASKS)";
}

bool speaks_for_launch(const LaunchView& view) {
  const char* of_mpirun = view.get("OMPI_COMM_WORLD_RANK");
  return number(of_mpirun ? of_mpirun : view.get("SLURM_PROCID")) == 0;
}

bool launched_with_others(const LaunchView& view) {
  const char* step = view.get("SLURM_STEP_NUM_TASKS");
  return number(view.get("OMPI_COMM_WORLD_SIZE")) > 1 || number(step) > 1;
}

}  // namespace faibench
