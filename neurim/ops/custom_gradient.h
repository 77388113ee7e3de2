// Functions with a gradient of their own.
#pragma once
#include <functional>

#include "neurim/graph/op.h"

namespace neurim {

/// Computes gradients with ops: one for each of Gradient::in, of its shape and dtype, or undefined where it is zero.
using GradientFunction = std::function<Tensors(const Gradient& gradient)>;

/// What `forward` makes of `in`, any number of tensors of any dtypes. Gradients of the results are those of `backward`,
/// and not those of the ops of `forward`. Plans compute nothing more for it; eagerly it is forward(in).
/// When gradients are taken, it throws Error(usage), which starts with `called`: where `backward` gives another number
/// of gradients, or one of another shape or dtype, and where a gradient is wanted of a tensor that `forward` reads
/// although it is not in `in`.
Tensors custom_gradient(const Tensors& in, const std::function<Tensors(const Tensors&)>& forward,
                        GradientFunction backward, std::string called = "custom_gradient");

}  // namespace neurim
