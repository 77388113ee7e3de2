// Initialisers: the distribution that a parameter's first values are drawn from.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include "neurim/graph/op.h"

namespace neurim::nn {

/// A distribution. The default one keeps what the tensor holds.
struct Init {
  /// How values are drawn; keep: not at all.
  enum Kind : std::uint8_t { keep, constant, uniform, normal, trunc_normal } kind = keep;  ///< the distribution
  double mean = 0,             ///< of normal and trunc_normal; the value of constant
      std = 1;                 ///< std of normal and trunc_normal
  double low = 0,              ///< uniform draws from [low, high), trunc_normal from [low, high]
      high = 1;                ///< see low
  std::int64_t zero_row = -1;  ///< the slice along the first axis that is 0 instead; -1: none
};

/// Every value the same.
Init constant(double value);
/// The uniform distribution over [low, high).
Init uniform(double low, double high);
/// The normal distribution.
Init normal(double mean = 0, double std = 1);
/// The normal distribution without what lies outside [low, high]. Throws Error(usage) when less than a
/// thousandth of it lies inside.
Init trunc_normal(double mean = 0, double std = 1, double low = -2, double high = 2);

/// Which side of a layer the variance is kept on: activations (in) or gradients (out). The fans of a weight
/// (O,I,k…) are I*k… and O*k…, as PyTorch counts them.
enum class Fan : std::uint8_t { in, out };

/// The uniform distribution of mean 0 and variance 2 / ((1 + a^2) fan): He et al., "Delving deep into rectifiers",
/// ICCV'15, for leaky ReLU of slope `a` (0: ReLU). Throws Error(usage) for a weight of fewer than two axes.
Init kaiming_uniform(const Shape& weight, double a = 0, Fan fan = Fan::in);
/// The normal distribution of the mean and variance of kaiming_uniform.
Init kaiming_normal(const Shape& weight, double a = 0, Fan fan = Fan::in);
/// The uniform distribution of mean 0 and variance 2 gain^2 / (fan in + fan out): Glorot and Bengio, "Understanding
/// the difficulty of training deep feedforward neural networks", AISTATS'10. Throws Error(usage) for a weight of fewer
/// than two axes.
Init xavier_uniform(const Shape& weight, double gain = 1);
/// The normal distribution of the mean and variance of xavier_uniform.
Init xavier_normal(const Shape& weight, double gain = 1);

/// U(-b, b) with b = 1/sqrt(fan in): what PyTorch gives weights and biases of convolutions and linear layers.
Init fan_in_uniform(const Shape& weight);
/// kaiming_normal over the outgoing fan: what torchvision gives the convolutions of its ResNets.
Init fan_out_normal(const Shape& weight);
/// Zeros, for biases.
Init zeros(const Shape& weight);
/// How a layer chooses the distribution of its weight, and of its bias; both follow the shape of the weight.
using InitRule = Init (*)(const Shape& weight);
/// Visited as a word, the name of one of the functions above that take a weight's shape; a rule of one's own
/// as "". Throws Error(usage) for another word.
void field(Fields& f, std::string_view name, InitRule& rule);

/// Draws all of an f32 tensor. Every value is a pure function of (seed, name, place in the tensor), so that
/// neither other parameters nor the order of construction nor the number of threads change it.
void fill(const Tensor& tensor, const Init& init, std::uint64_t seed, std::string_view name);

/// A new f32 tensor on the CPU that is ready to use: drawn from `init`, differently at each call.
/// `initialise` of nn/module.h redraws a whole module by seed and names, which is what makes a run
/// repeatable.
Tensor parameter(const Shape& shape, const Init& init);

/// While one lives, parameter() of this thread leaves new tensors undrawn, for modules that are initialised
/// or loaded right after they are built. Where they would have more than `most` values in all, it throws
/// Error(usage) before it takes memory for them.
class Undrawn {
 public:
  /// Leaves at most `most` values undrawn; without it there is no limit.
  explicit Undrawn(std::int64_t most = std::numeric_limits<std::int64_t>::max());
  ~Undrawn();
  Undrawn(const Undrawn&) = delete;
  Undrawn& operator=(const Undrawn&) = delete;

 private:
  bool outer_;
  std::int64_t outer_room_, room_;
};

}  // namespace neurim::nn
