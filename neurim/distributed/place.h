// Where this process stands among those of its job, as whoever started it says in the environment.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace neurim {

/// The place of a process in a job.
struct Place {
  int rank = 0, size = 1;              ///< among all processes
  int local_rank = 0, local_size = 1;  ///< among those of this machine
  std::string address;                 ///< host:port at which the processes find each other: that of rank 0
  std::string store;                   ///< host:port of a KeyStore in which rank 0 leaves it, where nobody else says it
  std::string secret;                  ///< that the processes of a job share; "": none was given
  double timeout = 60;                 ///< seconds after which a silent process counts as lost
  std::string launcher;                ///< who said so: "neurim launch", "torchrun", …; "": the process is alone
  std::string backend = "tcp";         ///< what carries messages: "tcp", "mpi" or "nccl"
  bool shared_memory = true;           ///< of tcp: whether processes of one machine share memory for them
};

/// The value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// Reads what launchers set, in this order: NEURIM_RANK and its kin (`neurim launch`), OMPI_COMM_WORLD_RANK (Open MPI's
/// mpirun), PMI_RANK (MPICH's), SLURM_PROCID of a job step with several tasks (srun), HOROVOD_RANK (horovodrun), RANK
/// with WORLD_SIZE (torchrun). The address is NEURIM_ADDRESS, else MASTER_ADDR with the port after MASTER_PORT, which
/// torchrun takes itself; of a Slurm step the first of its hosts with a port made of its job's number; of horovodrun
/// what rank 0 leaves in its key store. Processes of mpirun that have none of these use MPI.
/// NEURIM_BACKEND is "auto", "tcp" (or "ring"), "mpi" or "nccl", NEURIM_SHARED_MEMORY 0 or 1; NEURIM_SECRET and
/// NEURIM_TIMEOUT (seconds) hold with any launcher. Throws Error(usage) where the numbers make no sense, or nobody says
/// how several processes meet.
Place place_of_process(const Environment& environment);
/// The same of this process's environment.
Place place_of_process();

/// How many tasks a node of a Slurm step has, by a list such as "4(x2),3".
int tasks_of_node(const std::string& list, int node);

/// The first host of a Slurm list such as "node[003-007,9],login1".
std::string first_host(const std::string& list);

}  // namespace neurim
