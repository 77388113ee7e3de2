// What all optimizers have: the weights they step, a learning rate on the device, a step counter and state to
// save.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "neurim/nn/module.h"
#include "neurim/optim/gradient_transform.h"

namespace neurim {

/// Holds handles to weights, so that stepping changes the model's. Its state lies on the device where the
/// weights are when it is built, and is saved and loaded as any module's: "lr", "step" and
/// "<weight>.<buffer>".
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// The weights in the order in which step() wants their gradients; tied ones once.
  const Tensors& weights() const { return weights_; }

  /// Moves all weights by one step against the gradients of `loss`, a scalar: the mean over so many samples. They go
  /// through the chain first, which may put the step off. Recorded, or done, as step().
  void minimize(const Tensor& loss, double samples = 1);

  /// Adds a link behind the chain. To be called before steps are recorded, and before its state is loaded.
  void add(std::unique_ptr<GradientTransform> transform);

  /// Records what minimize() does for a batch of which there are no samples here, but elsewhere: see ReduceGradients.
  void follow();

  /// Adds the gradients of a part of a network to those that are added up: `of` are its outputs, `seeds` their
  /// gradients, of sums over so many samples. Returns the gradients of `wrt`. With hold(true).
  Tensors backward(const Tensors& of, const Tensors& seeds, double samples, const Tensors& wrt);
  /// The loss as it is differentiated: see ScaleLoss.
  Tensor scaled(const Tensor& loss) const { return scale_loss_ ? scale_loss_->scaled(loss) : loss; }
  /// As long as it is true, minimize() records nothing.
  void only_forward(bool only) { only_forward_ = only; }

  /// Adds up the gradients of several batches before a step; see AccumulateGradients. To be called as add().
  void accumulate(std::size_t parts = 1, AccumulateGradients::Order order = {});
  /// What is recorded from now on adds up gradients without a step; see AccumulateGradients::hold. With accumulate().
  void hold(bool holds, std::size_t part = 0);
  /// What adds up gradients; null before accumulate().
  AccumulateGradients* accumulated() { return accumulate_; }

  /// Differentiates sums over samples in place of means, where gradients pass between processes whose batches have
  /// different sizes. To be called as add().
  void sum_losses() { sums_losses_ = true; }

  /// Keeps the state of these weights alone, one truth value for each; the others are not stepped. What steps them is
  /// elsewhere: see ShardGradients. To be called before steps are recorded.
  void keep(const std::vector<bool>& kept);
  /// A buffer of a weight's state.
  struct Buffer {
    std::string name;    ///< in files
    Tensor tensor;       ///< undefined: it is kept elsewhere
    std::size_t weight;  ///< its number
  };
  /// All buffers; those that were not kept are zeros again, until the next keep().
  const std::vector<Buffer>& all_buffers();

  /// Scales losses; see ScaleLoss. To be called as add().
  void scale_losses();
  /// 1 where losses are not scaled.
  double loss_scale() const { return scale_loss_ ? scale_loss_->scale() : 1; }

  /// Moves all weights by one step. Records it when called in a trace, which is how training runs it; eagerly
  /// it does it at once. One gradient per weight, of its type; a weight whose gradient is undefined stays.
  /// Throws Error(usage) otherwise.
  void step(const Tensors& gradients);

  /// Writes the learning rate that later steps and replays use; no new plan is needed. Throws Error(usage)
  /// unless it is finite and not negative.
  void set_lr(double lr);
  double lr() const { return lr_.item(); }  ///< the learning rate of the next step
  std::int64_t steps() const { return static_cast<std::int64_t>(steps_.item()); }  ///< done so far

  void parts(Parts& p);

 protected:
  using Names = std::vector<std::string>;  ///< of buffers
  /// A weight and what its steps need.
  struct Weight {
    Tensor weight;     ///< the model's own
    Tensors buffers;   ///< in the order of the names given to the constructor
    double decay;      ///< its weight decay
    bool kept = true;  ///< whether it is stepped here
  };

  /// Steps the parameters that are weights. Weights of one axis (biases, norms) decay only with `decay_1d`.
  /// `buffers` are tensors of each weight's type that start at zero.
  Optimizer(const Parameters& parameters, double lr, double weight_decay, bool decay_1d, const Names& buffers);

  /// What is the same for all weights.
  struct Common {
    Tensor lr,     ///< a scalar
        step;      ///< an i64 scalar, 1 at the first step
    Tensor scale;  ///< what gradients are to be multiplied with, 0 where nothing is to move; undefined: they are as
                   ///< they are
  };
  /// One weight's step: assigns to the weight and its buffers.
  virtual void update(const Weight& weight, const Tensor& gradient, const Common& common) const = 0;

 private:
  void step(const Gradients& gradients);
  void go_through_chain(Gradients gradients, double samples);

  Tensor lr_, steps_;
  std::vector<std::unique_ptr<GradientTransform>> chain_;
  ScaleLoss* scale_loss_ = nullptr;            // in the chain
  AccumulateGradients* accumulate_ = nullptr;  // the same
  std::vector<std::string> names_;             // of the weights
  Tensors weights_;
  std::vector<Weight> slots_;
  bool sums_losses_ = false, only_forward_ = false;
  std::vector<Buffer> buffers_;
};

}  // namespace neurim
