// Ranks that are threads of one process.
#pragma once
#include <functional>

#include "neurim/distributed/process_group.h"
#include "neurim/distributed/wire.h"

namespace neurim {

/// The wires of so many ranks of this process, for a thread each; messages wait in memory.
std::vector<std::unique_ptr<Wire>> local_wires(int ranks);

/// Runs `body` as so many ranks, each in a thread with its group, and returns when all have ended. What fails in one is
/// told to all others; throws the first error.
void as_local_ranks(int ranks, const std::function<void(std::shared_ptr<ProcessGroup> group)>& body,
                    double timeout = Place().timeout);

}  // namespace neurim
