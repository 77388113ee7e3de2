// Layers without parameters: activations, dropout, flatten.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim::nn {

// Element by element; the shape stays.
struct ReLU {
  Tensor operator()(const Tensor& x) const;
};
struct ReLU6 {
  Tensor operator()(const Tensor& x) const;
};
struct LeakyReLU {
  double slope = 0.01;
  Tensor operator()(const Tensor& x) const;
};
struct ELU {
  double alpha = 1;
  Tensor operator()(const Tensor& x) const;
};
struct GELU {
  std::string approximate = "none";  ///< or "tanh"
  Tensor operator()(const Tensor& x) const;
};
struct SiLU {
  Tensor operator()(const Tensor& x) const;
};
struct Sigmoid {
  Tensor operator()(const Tensor& x) const;
};
struct Tanh {
  Tensor operator()(const Tensor& x) const;
};
struct Softplus {
  Tensor operator()(const Tensor& x) const;
};
struct Hardswish {
  Tensor operator()(const Tensor& x) const;
};
struct Hardsigmoid {
  Tensor operator()(const Tensor& x) const;
};

/// Shares that sum to 1 along an axis; the shape stays.
struct Softmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x) const;
};
struct LogSoftmax {
  std::int64_t axis = -1;
  Tensor operator()(const Tensor& x) const;
};

/// In a trace for training zeroes each element with probability p and scales the others by 1/(1-p); else the
/// identity.
struct Dropout {
  double p = 0.5;
  Tensor operator()(const Tensor& x) const;
};

/// (N,C,H,W) -> (N,C*H*W): joins all axes from `start_axis` on.
struct Flatten {
  std::int64_t start_axis = 1;
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
