// The steps that kernels apply to results while these are in registers.
#pragma once
#include "neurim/backend/cpu/common/relu.h"
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// A sum with another value, then a ReLU or ReLU6, each of which may be missing: the steps that kernels apply to
/// results while these are in registers. In a backward pass a ReLU's gradient stands for the ReLU.
struct AddRelu {
  int add = -1;         ///< the value that is added, as the result lies
  Relu relu;            ///< also the one whose gradient it is
  int mask = -1;        ///< the ReLU's output, of a gradient
  int sum = -1;         ///< the result of the addition
  int result = -1;      ///< the result of the last step
  std::size_t end = 0;  ///< the first step that is not part of it
};
/// Reads such steps from step `begin` on, at most to `end`, that begin with `value`; stops at the first that is none.
AddRelu read_add_relu(const KernelRequest& request, std::size_t begin, std::size_t end, int value,
                      bool gradient = false);

}  // namespace neurim::cpu
