// Finding by measurement which kernels a plan runs fastest with. Internal to compile/.
#pragma once
#include "neurim/compile/plan.h"
#include "neurim/compile/program.h"

namespace neurim {

/// Whether the program has requests that are to be measured and are not known yet.
bool to_measure(const Program& program, const class Tuning& tuning);

/// Measures the requests of a plan that options.tuning does not know yet, and writes down there which kernel each is to
/// have. Plans are made with one kernel after the other left out at a request, and what they have not in common is
/// timed in alternating rounds: the kernel itself, and the copies and steps around it that go with the choice. Nothing
/// of the state that the graph reads is changed. Takes a second for a small network, some minutes for a training step
/// that takes seconds.
void tune(const Graph& traced, const PlanOptions& options);

}  // namespace neurim
