// Softmax, log-softmax and cross entropy over rows: the last axis of plain f32 tensors.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"

namespace neurim::cpu {

/// Rows [first, last) of `size` elements, y from x; y may be x.
using SoftmaxRun = void(const float* x, float* y, std::int64_t size, std::int64_t first, std::int64_t last);
NEURIM_EACH_ISA(SoftmaxRun run_softmax)
NEURIM_EACH_ISA(SoftmaxRun run_log_softmax)

/// dx from y and dy; dx may be either.
using SoftmaxGradRun = void(const float* y, const float* dy, float* dx, std::int64_t size, std::int64_t first,
                            std::int64_t last);
NEURIM_EACH_ISA(SoftmaxGradRun run_softmax_grad)
NEURIM_EACH_ISA(SoftmaxGradRun run_log_softmax_grad)

/// Cross entropy of logits (places, classes): the target of class c weighs weight[c] * (spread + (c is the
/// label) * sure).
struct CrossEntropyRows {
  const float* logits;
  const std::int64_t* labels;
  const float* weights;  ///< or null: ones
  std::int64_t classes;
  float sure, spread;
};
/// The losses of a place whose label is within the classes.
NEURIM_EACH_ISA(float cross_entropy_row(const CrossEntropyRows& rows, std::int64_t place))
/// Its gradient with respect to the logits, times `scale`.
NEURIM_EACH_ISA(void cross_entropy_grad_row(const CrossEntropyRows& rows, std::int64_t place, float scale, float* dx))

}  // namespace neurim::cpu
