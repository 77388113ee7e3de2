// Absolute error, and the losses that are quadratic near 0 and absolute beyond.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

// Of two floating tensors of one type; `reduction` is "mean" (a scalar), "sum" (a scalar), or "none" (the
// shape of x). f16 and bf16 are computed in f32 and rounded once. The values are PyTorch's.

/// |x - y|; its gradient is 0 where x = y.
Tensor l1_loss(const Tensor& x, const Tensor& y, const std::string& reduction = "mean");

/// d^2 / (2 beta) where d = |x - y| is below beta, else d - beta / 2; beta 0 is l1_loss (Girshick, Fast
/// R-CNN, 2015). Throws Error(usage) when beta is negative.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1, const std::string& reduction = "mean");

/// d^2 / 2 where d = |x - y| is below delta, else delta (d - delta / 2) (Huber, 1964). Throws Error(usage)
/// unless delta is positive.
Tensor huber_loss(const Tensor& x, const Tensor& y, double delta = 1, const std::string& reduction = "mean");

}  // namespace neurim
