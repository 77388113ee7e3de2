// The order in which the CPU's kernels are asked.
#pragma once
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// Registers a kernel of the CPU with the rank that the table in priorities.cpp gives its op and name. A kernel named
/// "cpu" may be missing there if it is the only one of its op. Asserts that the table lists any other.
void add_kernel(Kernel kernel);

}  // namespace neurim::cpu
