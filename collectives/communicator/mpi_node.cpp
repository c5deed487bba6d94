#include "communicator/mpi_node.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "tensor/error.h"

namespace faibench {

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(Error::Kind::mpi, std::string(call) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

namespace {

constexpr std::int64_t page = 4096, cache_line = 64;
constexpr std::int64_t spare_room = 1 << 20;  // what MPI itself may still want of the folder
const char* const shared_folder = "/dev/shm"; // where MPI libraries keep memory shared between processes

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

// The lowest rank of each rank's node.
NodeMap find_nodes(MPI_Comm all, int ranks_per_node) {
  int size = 0;
  check_mpi(MPI_Comm_size(all, &size), "MPI_Comm_size");
  if (ranks_per_node > 0) return NodeMap::regular(size, ranks_per_node);
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, rank_in(all), MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int leader = rank_in(all);
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  std::vector<int> leaders(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, all), "MPI_Allgather");
  return NodeMap(leaders);
}

std::byte* next_page(void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::byte*>(address) + ((value + page - 1) / page * page - value);
}

std::int64_t free_shared_bytes() {
  struct statvfs state {};
  if (statvfs(shared_folder, &state) != 0) return 0;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

}  // namespace

struct MpiNode::Windows {
  std::vector<const Window*> alive;
};

class MpiNode::Window final : public SharedMemory {
 public:
  /// Collective over `node`; `of_rank` maps ranks of the group to those of `node`, -1 elsewhere.
  Window(MPI_Comm node, const std::vector<int>& local_of_rank, std::int64_t bytes, std::shared_ptr<Windows> windows) : bytes_(bytes), windows_(std::move(windows)) {
    MPI_Info info = MPI_INFO_NULL;
    check_mpi(MPI_Info_create(&info), "MPI_Info_create");
    check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");  // each part on pages of its own: its rank's memory
    void* own = nullptr;
    const std::int64_t rounded = std::max(page, (bytes + page - 1) / page * page) + page;  // a page more: libraries put words of their own in front
    const int status = MPI_Win_allocate_shared(static_cast<MPI_Aint>(rounded), 1, info, node, &own, &window_);
    MPI_Info_free(&info);
    check_mpi(status, "MPI_Win_allocate_shared");
    own_ = next_page(own);
    std::memset(own_, 0, static_cast<std::size_t>(rounded - page));
    for (int local : local_of_rank) {
      if (local < 0) {
        parts_.push_back(nullptr);
        continue;
      }
      MPI_Aint size = 0;
      int unit = 0;
      void* base = nullptr;
      check_mpi(MPI_Win_shared_query(window_, local, &size, &unit, &base), "MPI_Win_shared_query");
      parts_.push_back(next_page(base));  // mappings start at page borders: the same distance on every rank
    }
    check_mpi(MPI_Barrier(node), "MPI_Barrier");  // zeroed before anybody looks
    windows_->alive.push_back(this);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() override {
    std::erase(windows_->alive, this);
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Win_free(&window_);
  }
  std::int64_t bytes() const override { return bytes_; }
  std::byte* own() const override { return own_; }
  std::byte* of(int rank) const override { return parts_[static_cast<std::size_t>(rank)]; }
  /// Whether `address` lies in this rank's part.
  bool holds(const std::byte* address) const { return address >= own_ && address < own_ + std::max<std::int64_t>(bytes_, 1); }

 private:
  std::int64_t bytes_;
  std::shared_ptr<Windows> windows_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* own_ = nullptr;
  std::vector<std::byte*> parts_;
};

/// A counter a rank, on cache lines of their own at the start of a window's parts.
class MpiNode::Flags {
 public:
  Flags(MpiNode& node, std::unique_ptr<Window> window) : node_(node), window_(std::move(window)) {
    for (int peer : node_.map_.members(node_.map_.node_of(node_.rank_)))
      if (peer != node_.rank_) others_.push_back(counter(peer));
    own_ = counter(node_.rank_);
  }
  [[nodiscard]] const Window& window() const { return *window_; }
  [[nodiscard]] std::uint64_t turn() const { return turn_; }
  /// What this rank wrote before is seen by all after; returns when all have come as often.
  void raise_and_wait() {
    ++turn_;
    std::atomic_ref(*own_).store(turn_, std::memory_order_release);
    for (std::uint64_t* other : others_) {
      const std::atomic_ref flag(*other);
      for (int spins = 0; flag.load(std::memory_order_acquire) < turn_; ++spins) {
        if (spins < (node_.crowded_ ? 20 : 2000)) {
          __builtin_ia32_pause();
          continue;
        }
        sched_yield();
        if (spins % 64 == 0) node_.progress();
      }
    }
  }

 private:
  std::uint64_t* counter(int rank) const { return reinterpret_cast<std::uint64_t*>(window_->of(rank)); }
  MpiNode& node_;
  std::unique_ptr<Window> window_;
  std::vector<std::uint64_t*> others_;
  std::uint64_t* own_ = nullptr;
  std::uint64_t turn_ = 0;
};

// Two slots a rank, in turn. Who writes one for turn t has seen everybody post t - 1, so all are done with what was posted at t - 2.
class MpiNode::Slots final : public Board {
 public:
  static constexpr std::int64_t window_bytes = page + 2 * slot_bytes;
  Slots(MpiNode& node, std::unique_ptr<Window> window) : flags_(node, std::move(window)), rank_(node.rank_) {}
  std::byte* own() override { return slot(rank_, flags_.turn() + 1); }
  void post() override { flags_.raise_and_wait(); }
  const std::byte* of(int rank) const override { return slot(rank, flags_.turn()); }

 private:
  std::byte* slot(int rank, std::uint64_t turn) const { return flags_.window().of(rank) + page + static_cast<std::int64_t>(turn % 2) * slot_bytes; }
  Flags flags_;
  int rank_;
};

MpiNode::MpiNode(MPI_Comm all, int ranks_per_node, bool shared_memory, bool peer_reads)
    : all_(all), rank_(rank_in(all)), map_(find_nodes(all, ranks_per_node)), shared_memory_(shared_memory), windows_(std::make_shared<Windows>()) {
  check_mpi(MPI_Comm_split(all_, map_.node_of(rank_), rank_, &node_), "MPI_Comm_split");
  check_mpi(MPI_Comm_set_errhandler(node_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  const auto on_node = static_cast<std::int64_t>(map_.members(map_.node_of(rank_)).size());
  crowded_ = on_node > sysconf(_SC_NPROCESSORS_ONLN);
  if (peer_reads) probe_peer_reads();
}

MpiNode::~MpiNode() {
  board_.reset();
  flags_.reset();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && node_ != MPI_COMM_NULL) MPI_Comm_free(&node_);
}

std::int64_t MpiNode::least_of_all(std::int64_t value) const {
  std::int64_t least = value;
  check_mpi(MPI_Allreduce(&value, &least, 1, MPI_INT64_T, MPI_MIN, all_), "MPI_Allreduce");
  return least;
}

std::vector<int> MpiNode::local_of_rank() const {
  std::vector<int> local;
  for (int rank = 0; rank < map_.ranks(); ++rank) local.push_back(map_.same_node(rank, rank_) ? map_.local_rank(rank) : -1);
  return local;
}

std::unique_ptr<SharedMemory> MpiNode::share(std::int64_t bytes) { return make_window(bytes); }

std::unique_ptr<MpiNode::Window> MpiNode::make_window(std::int64_t bytes) {
  if (bytes < 0) throw Error(Error::Kind::internal, "share: " + std::to_string(bytes) + " bytes");
  const std::int64_t most = -least_of_all(-bytes);
  if (!shared_memory_) {
    why_not_shared_ = "memory shared between ranks is switched off";
    return nullptr;
  }
  const auto on_node = static_cast<std::int64_t>(map_.members(map_.node_of(rank_)).size());
  const std::int64_t wanted = on_node * (most + 3 * page) + spare_room, room = free_shared_bytes();
  const std::int64_t spare = least_of_all(room - wanted);
  if (spare < 0) {
    why_not_shared_ = std::string(shared_folder) + " of some node lacks " + std::to_string(-spare >> 10) + " KiB of the room for " + std::to_string(most >> 10) + " KiB a rank; make it larger (mount -o remount,size=)";
    return nullptr;
  }
  return std::make_unique<Window>(node_, local_of_rank(), most, windows_);
}

// Collective over the node alone, once.
void MpiNode::make_flags() {
  asked_for_flags_ = true;
  const auto on_node = static_cast<std::int64_t>(map_.members(map_.node_of(rank_)).size());
  if (!shared_memory_ || on_node == 1) return;
  const int here = free_shared_bytes() >= 3 * page * on_node + spare_room ? 1 : 0;
  int everywhere = 0;
  check_mpi(MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, node_), "MPI_Allreduce");
  if (everywhere == 1) flags_ = std::make_unique<Flags>(*this, std::make_unique<Window>(node_, local_of_rank(), cache_line, windows_));
}

void MpiNode::barrier() {
  if (!asked_for_flags_) make_flags();
  if (flags_) flags_->raise_and_wait();
  else check_mpi(MPI_Barrier(node_), "MPI_Barrier");
}

Board* MpiNode::board() {
  if (!asked_for_board_) {
    asked_for_board_ = true;
    if (map_.nodes() == 1 && shared_memory_)
      if (auto window = make_window(Slots::window_bytes)) board_ = std::make_unique<Slots>(*this, std::move(window));
  }
  return board_.get();
}

// Messages that this rank has handed to MPI may still want its attention before the ranks waited for can come.
void MpiNode::progress() const {
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, node_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
}

const std::byte* MpiNode::peer_address(int rank, const void* own) const {
  const auto* address = static_cast<const std::byte*>(own);
  for (const Window* window : windows_->alive) {
    if (!window->holds(address)) continue;
    const std::byte* base = window->of(rank);
    return base ? base + (address - window->own()) : nullptr;
  }
  return nullptr;
}

// A real read, in both directions of every neighbouring pair: permissions differ between containers, and a process id of another namespace may be somebody else's.
void MpiNode::probe_peer_reads() {
  process_ids_.assign(static_cast<std::size_t>(map_.ranks()), 0);
  const auto members = map_.members(map_.node_of(rank_));
#ifdef PR_SET_PTRACER
  if (members.size() > 1) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // fails where there is no such rule, and is not needed there
#endif
  const std::int64_t token = (static_cast<std::int64_t>(rank_) << 32) ^ getpid();
  struct Card { std::int64_t process, address; };
  const Card own{getpid(), static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&token))};
  std::vector<Card> cards(members.size());
  check_mpi(MPI_Allgather(&own, 2, MPI_INT64_T, cards.data(), 2, MPI_INT64_T, node_), "MPI_Allgather");
  bool works = true;
  for (std::size_t i = 0; i < members.size(); ++i) {
    process_ids_[static_cast<std::size_t>(members[i])] = cards[i].process;
    const auto ahead = (i + members.size() - static_cast<std::size_t>(map_.local_rank(rank_))) % members.size();
    if (ahead != 1 && ahead + 1 != members.size()) continue;
    if (members[i] == rank_) continue;
    std::int64_t seen = 0;
    const iovec here{&seen, sizeof seen}, there{reinterpret_cast<void*>(static_cast<std::intptr_t>(cards[i].address)), sizeof seen};
    works &= process_vm_readv(static_cast<pid_t>(cards[i].process), &here, 1, &there, 1, 0) == static_cast<ssize_t>(sizeof seen) &&
             seen == ((static_cast<std::int64_t>(members[i]) << 32) ^ cards[i].process);
  }
  reads_peers_ = least_of_all(works ? 1 : 0) == 1;  // and nobody's token goes before all have read it
}

void MpiNode::read_peer(int rank, const void* theirs, void* here, std::int64_t bytes) const {
  auto* to = static_cast<std::byte*>(here);
  const auto* from = static_cast<const std::byte*>(theirs);
  while (bytes > 0) {
    const iovec local{to, static_cast<std::size_t>(bytes)}, remote{const_cast<std::byte*>(from), static_cast<std::size_t>(bytes)};
    const ssize_t moved = process_vm_readv(static_cast<pid_t>(process_ids_[static_cast<std::size_t>(rank)]), &local, 1, &remote, 1, 0);
    if (moved <= 0) throw Error(Error::Kind::mpi, "reading " + std::to_string(bytes) + " bytes of rank " + std::to_string(rank) + ": " + (moved < 0 ? std::strerror(errno) : "nothing came"));
    to += moved;
    from += moved;
    bytes -= moved;
  }
}

}  // namespace faibench
