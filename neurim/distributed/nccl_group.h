// Sums between GPUs, by NVIDIA's NCCL.
#pragma once
#include <memory>

#include "neurim/distributed/process_group.h"

namespace neurim {

/// A group whose operations on numbers are those of NCCL; all others, and what NCCL needs to begin, go over `control`.
/// The GPU is that of the rank's number on its machine, or counted from the first again where it sees fewer. Numbers
/// are copied to the GPU and back. Sums that are sent in 16 bits are added up as NCCL does, rounded at each rank;
/// numbers of several ranks are combined in NCCL's order. The libraries are loaded here: NEURIM_NCCL_LIBRARY, else
/// libnccl.so.2, and NEURIM_CUDA_LIBRARY, else libcudart.so.13, 12 or 11. An operation of all ranks. Throws
/// Error(failure) on all of them where one cannot take part.
std::shared_ptr<ProcessGroup> nccl_group(std::shared_ptr<ProcessGroup> control, int local_rank,
                                         std::chrono::milliseconds timeout);

}  // namespace neurim
