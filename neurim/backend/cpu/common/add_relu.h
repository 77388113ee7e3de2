// A fused addition and ReLU, which kernels apply to results in registers.
#pragma once
#include "neurim/backend/cpu/common/relu.h"
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// The addition of another value, then a ReLU or ReLU6. Either may be missing. Kernels apply them to results in
/// registers. In a backward pass the ReLU's gradient takes the place of the ReLU.
struct AddRelu {
  int add = -1;         ///< the value that is added, of the same type as the result; -1: none
  Relu relu;            ///< in a backward pass: the ReLU whose gradient is applied; `on` is false: none
  int mask = -1;        ///< in a backward pass: the ReLU's output
  int sum = -1;         ///< the result of the addition; -1: none
  int result = -1;      ///< the result of the last step
  std::size_t end = 0;  ///< the first step that is not part of it
};
/// Matches the steps [begin, end) of a request, of which the first reads `value`. Stops at the first step that does not
/// match.
AddRelu read_add_relu(const KernelRequest& request, std::size_t begin, std::size_t end, int value,
                      bool gradient = false);

}  // namespace neurim::cpu
