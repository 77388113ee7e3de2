// Messages over MPI, whose library is loaded when a job asks for it.
#pragma once
#include "neurim/distributed/wire.h"

namespace neurim {

/// The processes that mpirun, or another launcher of MPI, has started. The library is NEURIM_MPI_LIBRARY, else that of
/// Open MPI or of MPICH (and its kin: Intel MPI, MVAPICH), whichever started this process. The calls are those of the
/// MPI standard, section 3; handles are as the library's binary interface has them. Throws Error(failure) where it
/// cannot be loaded, or knows of another rank than the place.
std::unique_ptr<Wire> mpi_wire(const Place& place);

}  // namespace neurim
