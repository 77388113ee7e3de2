#include "neurim/distributed/place.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

/// The variables of a launcher.
struct Launcher {
  const char *name, *rank, *size, *local_rank, *local_size;
};
constexpr Launcher kLaunchers[] = {
    {"neurim launch", "NEURIM_RANK", "NEURIM_SIZE", "NEURIM_LOCAL_RANK", "NEURIM_LOCAL_SIZE"},
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun of MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
    {"horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};
constexpr int kMostRanks = 1 << 20;

int whole(const char* name, const std::string& word) {
  int number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  require(error == std::errc() && end == word.data() + word.size() && number >= 0 && number <= kMostRanks, name,
          " is '", word, "'; it is a whole number");
  return number;
}

bool is_mpi(const Launcher& launcher) { return std::string_view(launcher.name).find("mpirun") == 0; }

/// Whether the variables of MPICH's mpirun are those that srun has set for its own tasks.
bool is_of_srun(const Environment& environment) {
  const auto rank = environment("SLURM_PROCID"), size = environment("SLURM_NTASKS");
  return rank && size && rank == environment("PMI_RANK") && size == environment("PMI_SIZE");
}

/// Where the processes of this launcher meet; "" where nobody says.
std::string address_of(const Launcher& launcher, const Environment& environment) {
  if (const auto said = environment("NEURIM_ADDRESS")) return *said;
  const auto host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  if (host && port) return text(*host, ':', whole("MASTER_PORT", *port) + 1);
  const auto nodes = environment("SLURM_STEP_NODELIST"), job = environment("SLURM_JOB_ID");
  constexpr int kFirstPort = 20000, kPorts = 20000;
  if (std::string_view(launcher.name) == "srun" && nodes && job)
    return text(first_host(*nodes), ':', kFirstPort + whole("SLURM_JOB_ID", *job) % kPorts);
  return "";
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == list.npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

int tasks_of_node(const std::string& list, int node) {
  for (const std::string& part : split(list, ',')) {
    const std::size_t times = part.find("(x");
    const int tasks = whole("SLURM_STEP_TASKS_PER_NODE", part.substr(0, times));
    const int nodes = times == part.npos
                          ? 1
                          : whole("SLURM_STEP_TASKS_PER_NODE", part.substr(times + 2, part.size() - times - 3));
    if (node < nodes) return tasks;
    node -= nodes;
  }
  fail(Fault::usage, "SLURM_STEP_TASKS_PER_NODE is '", list, "' and SLURM_NODEID lies beyond it");
}

Place place_of_process(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = environment(launcher.rank), size = environment(launcher.size);
    if (!rank || !size || (std::string_view(launcher.rank) == "PMI_RANK" && is_of_srun(environment))) continue;
    Place place{.rank = whole(launcher.rank, *rank), .size = whole(launcher.size, *size), .launcher = launcher.name};
    if (place.size == 1) continue;  // as in an allocation of Slurm without srun
    require(place.rank < place.size, launcher.rank, " is ", place.rank, " of ", place.size, " (", launcher.size,
            "); it is less");
    const auto local_rank = environment(launcher.local_rank), local_size = environment(launcher.local_size);
    place.local_rank = local_rank ? whole(launcher.local_rank, *local_rank) : 0;
    if (local_size && std::string_view(launcher.name) == "srun")
      place.local_size = tasks_of_node(*local_size, whole("SLURM_NODEID", environment("SLURM_NODEID").value_or("0")));
    else
      place.local_size = local_size ? whole(launcher.local_size, *local_size) : place.local_rank + 1;
    place.address = address_of(launcher, environment);
    const std::string backend = environment("NEURIM_BACKEND").value_or("auto");
    constexpr std::array kBackends{"auto", "tcp", "ring", "mpi", "nccl"};
    require(std::find(kBackends.begin(), kBackends.end(), backend) != kBackends.end(), "NEURIM_BACKEND is '", backend,
            "'; known are auto, tcp, mpi, nccl");
    const bool mpi = backend == "mpi" || (backend == "auto" && is_mpi(launcher) && place.address.empty());
    place.backend = mpi ? "mpi" : backend == "nccl" ? "nccl" : "tcp";
    const std::string shared = environment("NEURIM_SHARED_MEMORY").value_or("1");
    require(shared == "0" || shared == "1", "NEURIM_SHARED_MEMORY is '", shared, "'; it is 0 or 1");
    place.shared_memory = shared == "1";
    const auto host = environment("HOROVOD_GLOO_RENDEZVOUS_ADDR"), port = environment("HOROVOD_GLOO_RENDEZVOUS_PORT");
    if (place.address.empty() && host && port) place.store = text(*host, ':', *port);
    require(place.backend == "mpi" || !place.address.empty() || !place.store.empty(), launcher.name, " has started ",
            place.size,
            " processes, and nothing says where they meet; set NEURIM_ADDRESS=HOST:PORT for all, an address of the "
            "machine of rank 0 and a free port there");
    place.secret = environment("NEURIM_SECRET").value_or("");
    if (const auto timeout = environment("NEURIM_TIMEOUT")) {
      char* end = nullptr;
      place.timeout = std::strtod(timeout->c_str(), &end);
      require(*end == 0 && place.timeout > 0 && place.timeout < 1e6, "NEURIM_TIMEOUT is '", *timeout,
              "'; it is a number of seconds");
    }
    return place;
  }
  return {};
}

Place place_of_process() {
  return place_of_process([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace neurim
