// Class numbers as masks, for losses made of other ops.
// Internal: not part of neurim.h.
#pragma once
#include <optional>
#include <string_view>

#include "neurim/graph/tensor.h"

namespace neurim {

/// What class numbers i64(N,…) say of x(N,C,…).
struct ClassTarget {
  Tensor hit;     ///< bool(N,C,…): the class of each place, class 0 where the place is ignored
  Tensor counts;  ///< bool(N,…): whether the place counts
  Tensor weight;  ///< (N,…), the dtype of wide(x): the weight of the class or 1, 0 where ignored

  /// x at the class of each place, (N,…).
  Tensor pick(const Tensor& x) const;
  /// The losses (N,…) of the places times their weights, 0 where ignored.
  Tensor weighted(const Tensor& losses) const;
  /// The "mean" of such losses over the weights of the places, their "sum", or with "none" the losses; in
  /// `dtype`.
  Tensor reduced(const Tensor& losses, std::string_view reduction, DType dtype) const;
};

/// Throws Error(usage), beginning with the name of the loss, unless x is floating (N,C,…), the target
/// i64(N,…) and class_weights, when given, floating (C). A target outside [0, C) that is not `ignore_index`
/// sets kStatusIndexOutOfRange.
ClassTarget class_target(std::string_view loss, const Tensor& x, const Tensor& target, const Tensor& class_weights,
                         std::optional<std::int64_t> ignore_index);

}  // namespace neurim
