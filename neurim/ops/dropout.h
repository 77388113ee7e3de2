// Dropout (Srivastava et al., 2014), its mask a function of key and place, never stored.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// In a trace for training, zeroes each element of the floating x with probability p and scales the others by
/// 1/(1-p); elsewhere x itself. p in [0, 1].
Tensor dropout(const Tensor& x, double p);

/// As dropout, for whole channels at once: each plane of x(N,C,…) stays or goes (Tompson et al., "Efficient
/// object localization using convolutional networks", CVPR'15).
Tensor dropout2d(const Tensor& x, double p);

/// As dropout, for whole samples of x(N,…) at once: stochastic depth, for the branch of a residual block
/// (Huang et al., "Deep networks with stochastic depth", ECCV'16).
Tensor drop_path(const Tensor& x, double p);

/// In a trace for training, sets each element of the floating x with probability p to the limit of selu for
/// large negative inputs, then scales and shifts all so that mean 0 and variance 1 keep (Klambauer et al.,
/// "Self-normalizing neural networks", 2017); elsewhere x itself. p in [0, 1).
Tensor alpha_dropout(const Tensor& x, double p);

/// Inputs (x, key i64(2) = {seed, step}) -> y. Element i stays when number i of random_uniform.h is at least
/// p. The gradient is the same op on dy.
class Dropout final : public Op {
 public:
  double p = 0.5;            ///< the probability that an element becomes 0
  std::int64_t ordinal = 0;  ///< of the random op in its trace
  std::string_view name() const override { return "dropout"; }
  void fields(Fields& f) override { f("p", p)("ordinal", ordinal); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Alias alias(int, int in) const override { return in == 0 ? Alias::overwrite : Alias::none; }
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
