// Softmax, log-softmax and cross entropy over rows: the last axis of plain f32 tensors.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// Computes rows [first, last) of `size` elements of y; y may be x.
using SoftmaxRun = void(const float* x, float* y, std::int64_t size, std::int64_t first, std::int64_t last);
NEURIM_EACH_ISA(SoftmaxRun run_softmax)
NEURIM_EACH_ISA(SoftmaxRun run_log_softmax)

/// Computes dx from y and dy; dx may be either.
using SoftmaxGradRun = void(const float* y, const float* dy, float* dx, std::int64_t size, std::int64_t first,
                            std::int64_t last);
NEURIM_EACH_ISA(SoftmaxGradRun run_softmax_grad)
NEURIM_EACH_ISA(SoftmaxGradRun run_log_softmax_grad)

/// Cross entropy of logits (places, classes) with target weight[c] * (spread + sure * (c is the label)) for class c.
struct CrossEntropyRows {
  const float* logits;
  const std::int64_t* labels;
  const float* weights;  ///< or null: all 1
  std::int64_t classes;
  float sure, spread;
};
/// The loss of a place whose label is a class.
NEURIM_EACH_ISA(float cross_entropy_row(const CrossEntropyRows& rows, std::int64_t place))
/// Its gradient with respect to the logits, times `scale`.
NEURIM_EACH_ISA(void cross_entropy_grad_row(const CrossEntropyRows& rows, std::int64_t place, float scale, float* dx))

}  // namespace neurim::cpu
