// The result file of a run (format "faibench-run/1", results/FORMAT.md): HDF5 that opens in h5py and pandas with no code of ours.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "results/journal.h"

namespace faibench {

struct ScalingStudy;

/// Writes the whole file to a temporary beside `path`, syncs, renames: `path` always holds the old run or the new one. Throws Error(io) and leaves what was there.
void write_run_file(const std::filesystem::path& path, const Provenance& provenance, const std::vector<Record>& records, Disk& disk = Disk::real());

/// The same with a study under /scaling; null: none.
void write_run_file(const std::filesystem::path& path, const Provenance& provenance, const std::vector<Record>& records, const ScalingStudy* study, Disk& disk = Disk::real());

/// Records with their samples, and the provenance. Throws Error(bad_input) "<path>: <place>: <reason>" in one line for anything that is not a well-formed run file.
RunContents read_run_file(const std::filesystem::path& path);

/// The study under /scaling without its raw samples, fits and findings (which follow from the rows); nothing where none was made. Throws like read_run_file().
std::optional<ScalingStudy> read_scaling_study(const std::filesystem::path& path);

/// A run by its name: RUN.h5; its journal where RUN.h5 is missing; or a journal itself (RUN.jsonl).
RunContents read_run(const std::filesystem::path& path);

}  // namespace faibench
