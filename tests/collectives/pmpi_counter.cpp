#include "collectives/pmpi_counter.h"

#include <mpi.h>

#include <numeric>
#include <span>

namespace faibench::testing_support {

WireCounts& wire_counts() {
  static WireCounts counts;
  return counts;
}

namespace {

std::int64_t bytes_of(std::int64_t count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return count * size;
}

void count_sent(std::int64_t count, MPI_Datatype type, int to, MPI_Comm comm) {
  if (to == MPI_PROC_NULL) return;
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int world_rank = MPI_UNDEFINED;
  PMPI_Comm_group(comm, &group);
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_translate_ranks(group, 1, &to, world, &world_rank);
  PMPI_Group_free(&group);
  PMPI_Group_free(&world);
  Counted& counted = wire_counts().sent[world_rank];
  ++counted.calls;
  counted.bytes += bytes_of(count, type);
}

void count_collective(const char* name, std::int64_t count, MPI_Datatype type) {
  Counted& counted = wire_counts().collectives[name];
  ++counted.calls;
  if (type != MPI_DATATYPE_NULL) counted.bytes += bytes_of(count, type);
}

std::int64_t total(const int counts[], MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return std::accumulate(counts, counts + size, std::int64_t{0});
}

bool is_root(int root, MPI_Comm comm) {
  int rank = -1;
  PMPI_Comm_rank(comm, &rank);
  return rank == root;
}

}  // namespace
}  // namespace faibench::testing_support

// The names are MPI's.
extern "C" {
using namespace faibench::testing_support;

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  count_sent(count, type, to, comm);
  return PMPI_Send(data, count, type, to, tag, comm);
}
int MPI_Ssend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  count_sent(count, type, to, comm);
  return PMPI_Ssend(data, count, type, to, tag, comm);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  count_sent(count, type, to, comm);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  count_sent(count, type, to, comm);
  return PMPI_Issend(data, count, type, to, tag, comm, request);
}
int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  count_sent(out_count, out_type, to, comm);
  return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
}
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  count_collective("MPI_Allreduce", count, type);
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  count_collective("MPI_Reduce", count, type);
  return PMPI_Reduce(in, out, count, type, op, root, comm);
}
int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  count_collective("MPI_Reduce_scatter", total(counts, comm), type);
  return PMPI_Reduce_scatter(in, out, counts, type, op, comm);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  count_collective("MPI_Bcast", is_root(root, comm) ? count : 0, type);
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, MPI_Comm comm) {
  count_collective("MPI_Allgather", out_count, out_type);  // also in place, where in_count means nothing
  return PMPI_Allgather(in, in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[], const int offsets[], MPI_Datatype out_type, MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  count_collective("MPI_Allgatherv", counts[rank], out_type);
  return PMPI_Allgatherv(in, in_count, in_type, out, counts, offsets, out_type, comm);
}
int MPI_Alltoallv(const void* in, const int in_counts[], const int in_offsets[], MPI_Datatype in_type, void* out, const int out_counts[], const int out_offsets[], MPI_Datatype out_type, MPI_Comm comm) {
  count_collective("MPI_Alltoallv", total(in_counts, comm), in_type);
  return PMPI_Alltoallv(in, in_counts, in_offsets, in_type, out, out_counts, out_offsets, out_type, comm);
}
int MPI_Barrier(MPI_Comm comm) {
  count_collective("MPI_Barrier", 0, MPI_DATATYPE_NULL);
  return PMPI_Barrier(comm);
}
}
