// Layers without parameters: activations, dropout, other shapes.
#pragma once
#include <string>
#include <vector>

#include "neurim/ops/common/list_field.h"

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
  void fields(Fields& f) { f("slope", slope); }
  Tensor operator()(const Tensor& x) const;
};
struct ELU {
  double alpha = 1;
  void fields(Fields& f) { f("alpha", alpha); }
  Tensor operator()(const Tensor& x) const;
};
struct SELU {
  Tensor operator()(const Tensor& x) const;
};
struct CELU {
  double alpha = 1;
  void fields(Fields& f) { f("alpha", alpha); }
  Tensor operator()(const Tensor& x) const;
};
struct GELU {
  std::string approximate = "none";  ///< or "tanh"
  void fields(Fields& f) { f("approximate", approximate); }
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
  double beta = 1, threshold = 20;  ///< log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold
  void fields(Fields& f) { f("beta", beta)("threshold", threshold); }
  Tensor operator()(const Tensor& x) const;
};
struct Hardswish {
  Tensor operator()(const Tensor& x) const;
};
struct Hardsigmoid {
  Tensor operator()(const Tensor& x) const;
};
struct Hardtanh {
  double min_val = -1, max_val = 1;
  void fields(Fields& f) { f("min_val", min_val)("max_val", max_val); }
  Tensor operator()(const Tensor& x) const;
};
struct Mish {
  Tensor operator()(const Tensor& x) const;
};
struct LogSigmoid {
  Tensor operator()(const Tensor& x) const;
};
struct Softsign {
  Tensor operator()(const Tensor& x) const;
};
struct Hardshrink {
  double lambd = 0.5;
  void fields(Fields& f) { f("lambd", lambd); }
  Tensor operator()(const Tensor& x) const;
};
struct Softshrink {
  double lambd = 0.5;
  void fields(Fields& f) { f("lambd", lambd); }
  Tensor operator()(const Tensor& x) const;
};
struct Tanhshrink {
  Tensor operator()(const Tensor& x) const;
};
struct Threshold {
  double threshold = 0, value = 0;  ///< what is not above `threshold` becomes `value`
  void fields(Fields& f) { f("threshold", threshold)("value", value); }
  Tensor operator()(const Tensor& x) const;
};

/// Halves an axis: the first half times the sigmoid of the second.
struct GLU {
  std::int64_t axis = -1;
  void fields(Fields& f) { f("axis", axis); }
  Tensor operator()(const Tensor& x) const;
};

/// Shares that sum to 1 along an axis; the shape stays. Axis 1 of images is PyTorch's Softmax2d.
struct Softmax {
  std::int64_t axis = -1;
  void fields(Fields& f) { f("axis", axis); }
  Tensor operator()(const Tensor& x) const;
};
struct LogSoftmax {
  std::int64_t axis = -1;
  void fields(Fields& f) { f("axis", axis); }
  Tensor operator()(const Tensor& x) const;
};

/// In a trace for training zeroes each element with probability p and scales the others by 1/(1-p); else the
/// identity.
struct Dropout {
  double p = 0.5;
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;
};

/// The same for each plane of x(N,C,…) at once.
struct Dropout2d {
  double p = 0.5;
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;
};
/// The same for each sample of x(N,…) at once: stochastic depth.
struct DropPath {
  double p = 0.1;
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;
};
/// Dropout for networks of SELU: keeps mean 0 and variance 1.
struct AlphaDropout {
  double p = 0.5;
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;
};

/// (N,C,H,W) -> (N,C*H*W): joins the axes from `start_axis` to `end_axis`, both included.
struct Flatten {
  std::int64_t start_axis = 1, end_axis = -1;
  void fields(Fields& f) { f("start_axis", start_axis)("end_axis", end_axis); }
  Tensor operator()(const Tensor& x) const;
};
/// Takes an axis apart into several of the given sizes, one of which may be -1.
struct Unflatten {
  std::int64_t axis = 1;
  Shape sizes;
  void fields(Fields& f) {
    f("axis", axis);
    list_field(f, "sizes", sizes);
  }
  Tensor operator()(const Tensor& x) const;
};
/// The axes in another order: axis i of the result is axis axes[i] of x.
struct Permute {
  std::vector<std::int64_t> axes;
  void fields(Fields& f) { f("axes", axes); }
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
