// Training with wide layers spread over processes.
#pragma once
#include "neurim/train/stepping.h"

namespace neurim {

/// The ranks of a team compute each wide linear layer and convolution together, a part of its outputs each, and each
/// attention, a part of its heads each; all else each of them computes. Weights of such layers, their gradients and
/// their optimizer state are spread over the team. See ParallelOptions::tensor.
std::unique_ptr<Stepping> tensor_stepping(const StepParts& parts);

}  // namespace neurim
