// Layers without parameters: activations, dropout, other shapes.
#pragma once
#include <string>
#include <vector>

#include "neurim/ops/common/list_field.h"

namespace neurim::nn {

/// max(x, 0), as torch.nn.ReLU.
struct ReLU {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// min(max(x, 0), 6), as torch.nn.ReLU6.
struct ReLU6 {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x where x > 0, else slope * x, as torch.nn.LeakyReLU.
struct LeakyReLU {
  double slope = 0.01;  ///< the factor of negative values
  void fields(Fields& f) { f("slope", slope); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x where x > 0, else alpha * (e^x - 1), as torch.nn.ELU.
struct ELU {
  double alpha = 1;  ///< the result approaches -alpha for x to -infinity
  void fields(Fields& f) { f("alpha", alpha); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// scale * ELU with the constants that keep mean 0 and variance 1, as torch.nn.SELU (Klambauer et al.,
/// "Self-normalizing neural networks", NeurIPS'17).
struct SELU {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x where x > 0, else alpha * (e^(x / alpha) - 1), as torch.nn.CELU.
struct CELU {
  double alpha = 1;  ///< the result approaches -alpha for x to -infinity
  void fields(Fields& f) { f("alpha", alpha); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x * Phi(x), where Phi is the distribution function of the standard normal, as torch.nn.GELU.
struct GELU {
  std::string approximate = "none";  ///< or "tanh", which approximates Phi by a tanh
  void fields(Fields& f) { f("approximate", approximate); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x * sigmoid(x), as torch.nn.SiLU.
struct SiLU {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// 1 / (1 + e^-x), as torch.nn.Sigmoid.
struct Sigmoid {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// The hyperbolic tangent, as torch.nn.Tanh.
struct Tanh {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// log(1 + e^(beta x)) / beta, as torch.nn.Softplus; x itself where beta x is above the threshold.
struct Softplus {
  double beta = 1,     ///< the sharpness of the bend at 0; has to be positive
      threshold = 20;  ///< of beta x
  void fields(Fields& f) { f("beta", beta)("threshold", threshold); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x * min(max(x + 3, 0), 6) / 6, as torch.nn.Hardswish.
struct Hardswish {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// min(max(x + 3, 0), 6) / 6, as torch.nn.Hardsigmoid.
struct Hardsigmoid {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// min(max(x, min_val), max_val), as torch.nn.Hardtanh.
struct Hardtanh {
  double min_val = -1,  ///< the least result
      max_val = 1;      ///< the greatest result
  void fields(Fields& f) { f("min_val", min_val)("max_val", max_val); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x * tanh(softplus(x)), as torch.nn.Mish.
struct Mish {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// log(sigmoid(x)), as torch.nn.LogSigmoid.
struct LogSigmoid {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x / (1 + |x|), as torch.nn.Softsign.
struct Softsign {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x where |x| > lambd, else 0, as torch.nn.Hardshrink.
struct Hardshrink {
  double lambd = 0.5;  ///< the result is 0 in [-lambd, lambd]
  void fields(Fields& f) { f("lambd", lambd); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x - lambd where x > lambd, x + lambd where x < -lambd, else 0, as torch.nn.Softshrink.
struct Softshrink {
  double lambd = 0.5;  ///< the result is 0 in [-lambd, lambd]
  void fields(Fields& f) { f("lambd", lambd); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x - tanh(x), as torch.nn.Tanhshrink.
struct Tanhshrink {
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};
/// x where x > threshold, else value, as torch.nn.Threshold.
struct Threshold {
  double threshold = 0,  ///< the limit
      value = 0;         ///< what replaces elements that are not above it
  void fields(Fields& f) { f("threshold", threshold)("value", value); }
  Tensor operator()(const Tensor& x) const;  ///< element by element; the shape stays
};

/// Halves an axis: the first half times the sigmoid of the second.
struct GLU {
  std::int64_t axis = -1;  ///< of an even size; -1: the last
  void fields(Fields& f) { f("axis", axis); }
  Tensor operator()(const Tensor& x) const;  ///< gives the shape of x with half the size along the axis
};

/// Shares that sum to 1 along an axis; the shape stays. Axis 1 of images is PyTorch's Softmax2d.
struct Softmax {
  std::int64_t axis = -1;  ///< -1: the last
  void fields(Fields& f) { f("axis", axis); }
  Tensor operator()(const Tensor& x) const;  ///< the shape stays
};
/// The logarithm of softmax along an axis, as torch.nn.LogSoftmax.
struct LogSoftmax {
  std::int64_t axis = -1;  ///< -1: the last
  void fields(Fields& f) { f("axis", axis); }
  Tensor operator()(const Tensor& x) const;  ///< the shape stays
};

/// In a trace for training zeroes each element with probability p and scales the others by 1/(1-p); else the
/// identity.
struct Dropout {
  double p = 0.5;  ///< the probability that an element becomes 0
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;  ///< the shape stays
};

/// The same for each plane of x(N,C,…) at once.
struct Dropout2d {
  double p = 0.5;  ///< the probability that a plane becomes 0
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,…); the shape stays
};
/// The same for each sample of x(N,…) at once: stochastic depth.
struct DropPath {
  double p = 0.1;  ///< the probability that a sample becomes 0
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;  ///< x (N,…); the shape stays
};
/// Dropout for networks of SELU: keeps mean 0 and variance 1.
struct AlphaDropout {
  double p = 0.5;  ///< the probability that an element is dropped
  void fields(Fields& f) { f("p", p); }
  Tensor operator()(const Tensor& x) const;  ///< the shape stays
};

/// (N,C,H,W) -> (N,C*H*W): joins the axes from `start_axis` to `end_axis`, both included.
struct Flatten {
  std::int64_t start_axis = 1,  ///< the first joined axis, after the batch
      end_axis = -1;            ///< the last joined axis, included; -1: the last of x
  void fields(Fields& f) { f("start_axis", start_axis)("end_axis", end_axis); }
  Tensor operator()(const Tensor& x) const;  ///< gives the shape of x with the joined axes as one
};
/// Takes an axis apart into several of the given sizes, one of which may be -1.
struct Unflatten {
  std::int64_t axis = 1;  ///< the axis that is taken apart
  Shape sizes;            ///< in its place; one may be -1 and follows from the others
  void fields(Fields& f) {
    f("axis", axis);
    list_field(f, "sizes", sizes);
  }
  Tensor operator()(const Tensor& x) const;  ///< gives the shape of x with `sizes` in place of the axis
};
/// The axes in another order: axis i of the result is axis axes[i] of x.
struct Permute {
  std::vector<std::int64_t> axes;  ///< one for each axis of x
  void fields(Fields& f) { f("axes", axes); }
  Tensor operator()(const Tensor& x) const;  ///< gives the shape of x in the order of `axes`
};

}  // namespace neurim::nn
