// What multi-rank tasks see of other ranks. Knows no MPI: transports implement it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace faibench {

enum class Reduce { sum, min, max };

/// A group of ranks. Calls are collective and blocking unless said otherwise: every rank calls the same ones in the same order.
/// Counts may pass 2^31 elements. Failures of the transport throw Error(mpi).
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  virtual void barrier() = 0;
  /// Untyped forms; counts in elements of `dtype` (16-bit floats and bool can be moved, not reduced).
  virtual void all_reduce(const void* in, void* out, std::int64_t count, Dtype dtype, Reduce op) = 0;
  /// Rank r gets elements [displacements[r], displacements[r] + counts[r]) of the reduced vector.
  virtual void reduce_scatter(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype, Reduce op) = 0;
  /// Rank r gives counts[r] elements; all get the concatenation in rank order.
  virtual void all_gather(const void* in, void* out, std::span<const std::int64_t> counts, Dtype dtype) = 0;
  /// send_counts[r] elements go to rank r from send_offsets[r]; recv_counts[r] arrive from r at recv_offsets[r] (all in elements).
  virtual void all_to_all(const void* in, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* out,
                          std::span<const std::int64_t> recv_counts, std::span<const std::int64_t> recv_offsets, Dtype dtype) = 0;
  virtual void broadcast(void* data, std::int64_t count, Dtype dtype, int root) = 0;
  virtual void send(const void* data, std::int64_t count, Dtype dtype, int to) = 0;
  virtual void receive(void* data, std::int64_t count, Dtype dtype, int from) = 0;
  /// Ranks of equal color form a group, ordered by key, then by rank. A negative color joins none (null).
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Typed conveniences.
  template <class T>
  void all_reduce(View<const T, 1> in, View<T, 1> out, Reduce op) { all_reduce(in.data(), out.data(), in.size(), dtype_of<T>, op); }
  template <class T>
  void broadcast(View<T, 1> data, int root) { broadcast(data.data(), data.size(), dtype_of<T>, root); }
};

}  // namespace faibench
