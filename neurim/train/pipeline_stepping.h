// Training with the layers of a model spread over processes.
#pragma once
#include "neurim/train/stepping.h"

namespace neurim {

/// The ranks of a pipeline have a stage of the model each: see ParallelOptions::pipeline. A stage keeps its inputs of
/// each micro-batch and computes forward again before it goes back, as GPipe does (Huang et al., "GPipe: efficient
/// training of giant neural networks using pipeline parallelism", NeurIPS'19); 1f1b begins to go back as soon as it
/// can, so that fewer micro-batches are kept (Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN
/// training", SOSP'19). Gradients are added up over micro-batches, in their order, as grad_accum_steps does.
std::unique_ptr<Stepping> pipeline_stepping(const StepParts& parts);

}  // namespace neurim
