// What is done to gradients between the backward pass and the step of the optimizer.
#pragma once
#include <functional>
#include <span>

#include "neurim/nn/module.h"

namespace neurim {

/// The gradients of one step on their way.
struct Gradients {
  Tensors all;   ///< one for each weight; undefined: the weight stays
  Tensor scale;  ///< a f32 scalar that they are yet to be multiplied with, 0 where nothing is to move; undefined: 1
  Tensor samples = {};  ///< a f32 scalar: they are sums over so many samples; undefined: they are means
  /// Where each process has some of them: sums a f32 scalar over the processes.
  std::function<Tensor(const Tensor& number)> total = {};
  std::vector<double> copies = {};  ///< then: how many processes have each; empty: one

  void as_sums(double samples);         ///< of a batch of so many
  void as_means();                      ///< by way of `scale`
  void multiply(const Tensor& factor);  ///< the same, with a f32 scalar
  Tensors known() const;                ///< those that are defined
};

/// A link of the chain that an optimizer applies to its gradients, in order. Recorded with the step: all it does are
/// ops and assignments to its own state.
class GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  /// Changes the gradients of a batch of so many samples. False: there is no step yet.
  virtual bool apply(Gradients& gradients, double samples) = 0;
  /// After the step, with all weights.
  virtual void after(const Tensors& /*weights*/) {}
  /// State that is saved.
  virtual void parts(Parts& /*parts*/) {}
};

/// Adds up the gradients of several batches, each weighed by its samples, so that the step has the mean over all
/// samples, as of one batch of them all. State: "<weight>.gradient", and "samples" since the last step.
class AccumulateGradients final : public GradientTransform {
 public:
  /// In which order so many sums are combined: pairs (into, other), after which the first has all.
  using Order = std::vector<std::pair<std::size_t, std::size_t>>;
  /// Of weights that have these names. Each of `parts` parts of batches has sums of its own, which are combined in this
  /// order before the step; those of the first are the state.
  AccumulateGradients(const Tensors& weights, std::vector<std::string> names, std::size_t parts = 1, Order order = {});
  /// Whether what is recorded from now on only adds up, and to which part's sums. The step is the last part's.
  void hold(bool holds, std::size_t part);
  void keep(const std::vector<bool>& kept);  ///< sums of these weights alone; see Optimizer::keep
  bool has(std::size_t weight) const { return static_cast<bool>(sums_[0][weight]); }  ///< whether its sums are kept
  void restore();  ///< those of the others too, which are zeros again
  void forget();   ///< what was added up since the last step
  /// What the first part has added up since the last step, of f32 weights one after the other, and last the samples.
  std::vector<float> sums() const;
  void set_sums(std::span<const float> sums);  ///< as sums() gives them
  bool apply(Gradients& gradients, double samples) override;
  void parts(Parts& parts) override;

 private:
  const Tensors weights_;
  std::vector<std::string> names_;
  std::vector<Tensors> sums_;  // of each part
  const Order order_;
  Tensor samples_;
  bool holds_ = false;
  std::size_t part_ = 0;
};

/// Scales the loss before the backward pass, and the gradients back. Where one of them is not finite, nothing moves,
/// and the scale halves; after 2,000 other steps in a row it doubles. As PyTorch's GradScaler; Micikevicius et al.,
/// "Mixed precision training", ICLR'18. State: "loss_scale", and "finite_steps" since it last changed.
class ScaleLoss final : public GradientTransform {
 public:
  explicit ScaleLoss(Device device);              ///< with its state there
  Tensor scaled(const Tensor& loss) const;        ///< what is differentiated
  double scale() const { return scale_.item(); }  ///< now
  bool apply(Gradients& gradients, double samples) override;
  void parts(Parts& parts) override;

 private:
  Tensor scale_, finite_steps_;
};

/// Shrinks the gradients where their norm, the root of the sum of all their squares, is above `most`: as PyTorch's
/// clip_grad_norm_ (Pascanu et al., "On the difficulty of training recurrent neural networks", ICML'13). An infinite
/// norm makes the weights NaN, as it does there, and does not pass in silence.
class ClipGradientNorm final : public GradientTransform {
 public:
  explicit ClipGradientNorm(double most);  ///< throws Error(usage) unless it is above 0
  bool apply(Gradients& gradients, double samples) override;

 private:
  double most_;
};

/// Cuts each number of the gradients to [-most, most]: as PyTorch's clip_grad_value_.
class ClipGradientValue final : public GradientTransform {
 public:
  explicit ClipGradientValue(double most);  ///< throws Error(usage) unless it is above 0
  bool apply(Gradients& gradients, double samples) override;

 private:
  double most_;
};

}  // namespace neurim
