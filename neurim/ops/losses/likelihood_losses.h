// Negative log likelihoods of numbers under a distribution whose parameters are predicted.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

// f16 and bf16 are computed in f32 and rounded once. Figures and gradients are PyTorch's.

/// The options of gaussian_nll_loss, as of torch.nn.GaussianNLLLoss.
struct GaussianNllOptions {
  bool full = false;               ///< whether to add the constant log(2 pi) / 2
  double eps = 1e-6;               ///< positive; a smaller variance counts as this, and keeps its gradient
  std::string reduction = "mean";  ///< "mean" (over all elements), "sum" or "none"
};

/// (log var + (x - target)^2 / var) / 2, of a normal distribution with mean x and variance var, which must
/// not be negative: x and target floating and of one type, any shape; var of that dtype and shape, or with
/// size 1 in place of one axis, or without the last axis (Nix and Weigend, 1994).
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& options = {});

/// The options of poisson_nll_loss, as of torch.nn.PoissonNLLLoss.
struct PoissonNllOptions {
  bool log_input = true;           ///< whether x is the logarithm of the rate
  bool full = false;               ///< whether to add Stirling's approximation of log(target!) where it is above 1
  double eps = 1e-8;               ///< added to a rate of which the logarithm is taken
  std::string reduction = "mean";  ///< "mean" (over all elements), "sum" or "none"
};

/// e^x - target x, or with log_input false x - target log(x + eps), of a Poisson distribution: x and target
/// floating and of one type, any shape.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllOptions& options = {});

}  // namespace neurim
