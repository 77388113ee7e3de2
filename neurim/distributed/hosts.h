// The machines that a job runs on.
#pragma once
#include <string>
#include <vector>

namespace neurim {

/// A machine, and how many processes of a job run there.
struct HostSlots {
  std::string host;
  int slots = 1;
};

/// Of "node1:4,node2:4" (without a number: 1), or of a file with a line for each machine, "node1:4" or as mpirun takes
/// it, "node1 slots=4"; '#' begins a comment. Throws Error(usage).
std::vector<HostSlots> hosts_named(const std::string& option);

/// Whether it is this machine.
bool is_this_machine(const std::string& host);

/// What a shell on another machine runs to be a rank: in this folder, with these variables (NAME=value), the command.
/// Its stdin has a first line, which becomes the variable `first`, so that no list of processes shows it; further lines
/// are signals for the command, and at its end the command is killed.
std::string remote_script(const std::string& folder, const std::vector<std::string>& variables,
                          const std::vector<std::string>& command, const std::string& first);

}  // namespace neurim
