// How the losses of the elements become one loss.
// Internal: not part of neurim.h.
#pragma once
#include <string>
#include <string_view>

#include "neurim/graph/tensor.h"

namespace neurim {

/// Throws Error(usage), beginning with the name of the loss, unless `reduction` is "mean", "sum" or "none".
void check_reduction(std::string_view loss, std::string_view reduction);
/// Throws Error(usage) unless `x` is floating.
void check_floating(std::string_view loss, std::string_view x_is, const Tensor& x);
/// Throws Error(usage) unless `x` is floating and `y` is of the same type, which it names with both.
void check_alike(std::string_view loss, std::string_view x_is, const Tensor& x, std::string_view y_is, const Tensor& y);

/// The "mean" of all losses (NaN over none), their "sum", or with "none" the losses; in `dtype`.
Tensor reduced(const Tensor& losses, std::string_view reduction, DType dtype);

}  // namespace neurim
