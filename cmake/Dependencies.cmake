# Every dependency is a package of the system; scripts/setup.sh (called by run.sh and test.sh) installs them on Debian and Ubuntu.
set(MPI_CXX_SKIP_MPICXX ON)  # the removed C++ bindings warn in every file
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
if(FAIBENCH_TESTS)
  find_package(GTest REQUIRED)
endif()

# Never required: what a GPU machine adds.
find_package(CUDAToolkit QUIET)
find_package(Boost 1.74 QUIET COMPONENTS context)  # CUDA kernels on the CPU
find_path(FAIBENCH_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(CUDAToolkit_FOUND)
  message(STATUS "CUDA ${CUDAToolkit_VERSION} found: GPUs are counted at run time")
else()
  message(STATUS "No CUDA toolkit: building for CPUs only")
endif()
