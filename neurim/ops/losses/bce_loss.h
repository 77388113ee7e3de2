// Binary cross entropy of probabilities.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

/// -w (y log p + (1 - y) log(1 - p)) with p = probabilities and y = target, both in [0, 1], floating and of
/// one type, any shape, and w = weight, floating, which broadcasts to them, when given; `reduction` is "mean"
/// (over all elements), "sum" or "none". As PyTorch's BCELoss: logarithms stop at -100, and the gradient to p
/// divides by at least 1e-12. What comes from a sigmoid is better given as logits, to binary_cross_entropy:
/// near 1, p itself is coarse. f16 and bf16 are computed in f32 and rounded once.
Tensor bce_loss(const Tensor& probabilities, const Tensor& target, const Tensor& weight = {},
                const std::string& reduction = "mean");

}  // namespace neurim
