// Starting the processes of a job.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/distributed/hosts.h"

namespace neurim {

/// How a job is started.
struct LaunchOptions {
  int processes = 2;
  int restarts = 0;                   ///< how often the job begins again after it has lost a rank
  std::vector<HostSlots> hosts = {};  ///< where they run, ranks in this order; empty: all on this machine
  /// Starts a command on another machine: the program and its options, before the machine's name and a line for a
  /// shell.
  std::string remote_shell = "ssh -o BatchMode=yes";
  /// host:port at which ranks meet; "": a free port of this machine, or a port drawn by chance of the first of `hosts`.
  std::string address;
  double timeout = 60;  ///< seconds that ranks wait for each other
  /// Told what happens, a line each.
  std::function<void(const std::string& line)> tell = {};
};

/// What a launched process tells its launcher: a file that names the run that can be resumed.
inline constexpr const char* kRunFileVariable = "NEURIM_RUN_FILE";

/// Runs `command` as so many processes, each with its place in the environment (see place_of_process) and a new secret.
/// On other machines they start in this process's folder, with its variables NEURIM_* and HOROVOD_*. Rank 0 has this
/// process's stdout and stderr; what the others write to stderr follows at the end, unless rank 0 has
/// ended with a code of wrong options, data, resources or a signal, as all have the same to say then. Signals are
/// handed on; where a rank fails the others get some seconds to end by themselves, at most 10 and at most the timeout.
/// A job that has lost a rank begins again, `restarts` times: with what `again` makes of the run that was saved, else
/// with `command`. Returns the exit code: that of the rank that failed first, 1 where a signal ended it.
int launch(const std::vector<std::string>& command, const LaunchOptions& options,
           const std::function<std::vector<std::string>(const std::string& run)>& again);

}  // namespace neurim
