// Some of the ranks of a job as a group of their own.
#pragma once
#include <vector>

#include "neurim/distributed/wire.h"

namespace neurim {

/// `ranks` of another wire, in this order; this process is one of them.
std::unique_ptr<Wire> sub_wire(std::unique_ptr<Wire> wire, std::vector<int> ranks);

}  // namespace neurim
