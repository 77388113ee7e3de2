// Losses that are 0 beyond a margin.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

// `reduction` is "mean" (over the losses), "sum", or "none"; f16 and bf16 are computed in f32 and rounded
// once. The figures are PyTorch's; at the margin itself the gradient is 0, as in its later versions.

/// x where the target is 1, max(0, margin - x) where it is -1: x floating, a distance, of any shape, target
/// of that shape and any number dtype.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            const std::string& reduction = "mean");

/// max(0, margin - target (x1 - x2)): x1 should be the larger where the target is 1, x2 where it is -1. x1
/// and x2 floating and of one type, any shape, target of that shape and any number dtype.
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                           const std::string& reduction = "mean");

/// The options of multi_margin_loss.
struct MultiMarginOptions {
  std::int64_t p = 1;              ///< the power of each violation, 1 or 2
  double margin = 1;               ///< by which the class has to lead each other
  std::string reduction = "mean";  ///< "mean" (over N), "sum" or "none"
};

/// w[t] / C times the sum over the classes c other than t of max(0, margin - x[t] + x[c])^p: x(N,C) floating,
/// target t i64(N), class_weights w(C) floating when given -> a scalar, or (N) with reduction "none". A
/// target outside [0, C) sets kStatusIndexOutOfRange.
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginOptions& options = {},
                         const Tensor& class_weights = {});

/// 1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1: x1 and x2 (…,D)
/// floating and of one type, target (…), any number dtype.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                             const std::string& reduction = "mean");

/// The options of triplet_margin_loss.
struct TripletMarginOptions {
  double margin = 1;  ///< positive
  double eps = 1e-6;  ///< added to each difference
  bool swap = false;  ///< whether the negative may be compared with the positive, when that is nearer to it
  std::string reduction = "mean";  ///< "mean" (over the triplets), "sum" or "none"
};

/// max(0, |anchor - positive| - |anchor - negative| + margin) in Euclidean distance; all three (…,D),
/// floating and of one type -> a scalar, or (…) with reduction "none" (Schroff et al., FaceNet, 2015; swap:
/// Balntas et al., 2016).
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

}  // namespace neurim
