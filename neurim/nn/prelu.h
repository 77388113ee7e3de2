// ReLU with a learnt slope.
#pragma once
#include "neurim/nn/module.h"

namespace neurim::nn {

/// x(N,C,…) -> the same shape: x where x > 0, else weight * x; parameter weight, of one slope for all
/// channels or one each.
struct PReLU {
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25);  ///< init: of every slope
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); gives the same shape

  double init;    ///< the slopes' first value
  Tensor weight;  ///< (num_parameters)
};

}  // namespace neurim::nn
