// The fields of provenance, stated once: JSON, the HDF5 attributes and their documentation are made from these lists.
#pragma once
#include "results/provenance.h"
#include "results/record_fields.h"

namespace faibench {

/// Calls `f(FieldFact, member)` for every field of a host.
template <class H, class F>
void visit_host_fields(H& h, F&& f) {
  f(FieldFact{"name", "", "host name"}, h.name);
  f(FieldFact{"cpu_model", "", "processor"}, h.cpu_model);
  f(FieldFact{"isa", "", "instruction sets that matter"}, h.isa);
  f(FieldFact{"topology", "", "packages, NUMA nodes, cores, caches"}, h.topology);
  f(FieldFact{"system", "", "kernel and its release"}, h.system);
  f(FieldFact{"memory_bytes", "B", "main memory"}, h.memory_bytes);
  f(FieldFact{"gpus", "", "models of the GPUs"}, h.gpus);
  f(FieldFact{"gpu_driver", "", "version of the GPU driver"}, h.gpu_driver);
  f(FieldFact{"machine_class", "", "equal for machines whose timings may be compared"}, h.machine_class);
  f(FieldFact{"ranks", "", "ranks of the world that ran here"}, h.ranks);
  f(FieldFact{"copy_bytes_per_second", "B/s", "measured: read and written, arrays far larger than the caches"}, h.copy_bytes_per_second);
  f(FieldFact{"cache_copy_bytes_per_second", "B/s", "measured: read and written, arrays within the private caches"}, h.cache_copy_bytes_per_second);
  f(FieldFact{"operations_per_second", "1/s", "measured: f32 fused multiply-adds, each counting 2"}, h.operations_per_second);
  f(FieldFact{"handshake_seconds", "s", "measured: median round trip of an empty call"}, h.handshake_seconds);
  f(FieldFact{"noise_floor", "1", "measured: half-width of the interval of the baseline against itself"}, h.noise_floor);
}

/// Calls `f(FieldFact, member)` for every field of a rank.
template <class R, class F>
void visit_rank_fields(R& r, F&& f) {
  f(FieldFact{"rank", "1", "rank in the world"}, r.rank);
  f(FieldFact{"host", "", "host name"}, r.host);
  f(FieldFact{"cpus", "", "processors it was bound to, as a list of ranges"}, r.cpus);
  f(FieldFact{"gpus", "", "UUIDs of the GPUs visible to it"}, r.gpus);
  f(FieldFact{"gpu", "", "UUID of the GPU that it was given; empty: none", true}, r.gpu);
  f(FieldFact{"gpu_facts", "", "name, memory, clocks and driver of that GPU", true}, r.gpu_facts);
  f(FieldFact{"clock_source", "", "clock source of the kernel"}, r.clock_source);
  f(FieldFact{"mpi", "", "version of the MPI library, and whether it takes device memory"}, r.mpi);
  f(FieldFact{"memory_available_bytes", "B", "memory available on its host at the start"}, r.memory_available_bytes);
  f(FieldFact{"shared_memory_bytes", "B", "free room in /dev/shm of its host at the start"}, r.shared_memory_bytes);
  f(FieldFact{"environment", "", "variables that matter and that rank 0 has not or has otherwise"}, r.environment);
}

/// The same for every plain field of the provenance: all but `environment`, `hosts`, `ranks` and `audit`.
template <class P, class F>
void visit_provenance_fields(P& p, F&& f) {
  f(FieldFact{"version", "", "version of faibench"}, p.version);
  f(FieldFact{"commit", "", "commit it was built from; -dirty: with local changes"}, p.commit);
  f(FieldFact{"compiler", "", "compiler and version"}, p.compiler);
  f(FieldFact{"flags", "", "compiler flags"}, p.flags);
  f(FieldFact{"build_type", "", "Release, Debug, ..."}, p.build_type);
  f(FieldFact{"hdf5", "", "version of the HDF5 library"}, p.hdf5);
  f(FieldFact{"mpi", "", "version of the MPI library, and whether it takes device memory"}, p.mpi);
  f(FieldFact{"cuda", "", "version of the CUDA toolkit; empty: built without"}, p.cuda);
  f(FieldFact{"nccl", "", "version of NCCL; empty: built without"}, p.nccl);
  f(FieldFact{"command_line", "", "as it was typed"}, p.command_line);
  f(FieldFact{"started", "", "start of the run, UTC"}, p.started);
  f(FieldFact{"seed", "1", "seed of the run's inputs"}, p.seed);
  f(FieldFact{"world_size", "1", "ranks of the run"}, p.world_size);
  f(FieldFact{"launcher", "", "slurm, mpirun or alone"}, p.launcher);
  f(FieldFact{"slurm_job_id", "", "empty outside Slurm"}, p.slurm_job_id);
  f(FieldFact{"machine_class", "", "of the coordinator's host"}, p.machine_class);
}

}  // namespace faibench
