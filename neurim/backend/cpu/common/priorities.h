// The order in which the CPU's kernels are asked.
#pragma once
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// Registers a kernel of the CPU with the priority that the table in priorities.cpp has for its op and name. A kernel
/// that is named "cpu" needs no line there: it is the only one of its op. Asserts that any other has one.
void add_kernel(Kernel kernel);

}  // namespace neurim::cpu
