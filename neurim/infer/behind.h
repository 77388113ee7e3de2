// The nodes of a trace that a value comes from.
#pragma once
#include <vector>

#include "neurim/graph/op.h"
#include "neurim/graph/trace.h"

namespace neurim {

/// The nodes of the current trace that a value is made of, the last first.
std::vector<const Graph::Node*> nodes_behind(const Tensor& value);

}  // namespace neurim
