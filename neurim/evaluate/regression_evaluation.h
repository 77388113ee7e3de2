// How good the numbers are that a model gives for samples: regression.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/evaluate/multi_label_csv.h"
#include "neurim/evaluate/regression.h"

namespace neurim {

/// The numbers of a split beside the true ones, and what follows from them; NaN without samples.
class RegressionEvaluation {
 public:
  /// `names`: what the numbers of a sample are called, its targets.
  explicit RegressionEvaluation(std::vector<std::string> names);
  /// Adds samples: (N,targets) both, in the units of the data. Throws Error(failure) where one is not finite.
  void add(std::span<const float> predicted, std::span<const float> truths);
  void add_loss(double loss, std::int64_t samples);  ///< the mean loss of so many

  const std::vector<std::string>& names() const { return names_; }             ///< of the targets
  std::int64_t samples() const { return targets_[0].samples(); }               ///< that were added
  const Regression& of(std::size_t target) const { return targets_[target]; }  ///< the errors of a target
  double predicted(std::int64_t sample, std::size_t target) const;             ///< what the model says
  double truth(std::int64_t sample, std::size_t target) const;                 ///< what is true
  double loss() const;                                                         ///< what training minimizes
  double mae() const;                                                          ///< the mean over the targets
  double rmse() const;  ///< the root of the mean squared error over all targets
  double r2() const;    ///< the mean over the targets, as scikit-learn's r2_score
  /// The samples by their greatest error of a target in stds of its truths, the worst first.
  std::vector<std::int64_t> worst() const;

 private:
  std::vector<std::string> names_;
  std::vector<Regression> targets_;
  std::vector<float> predicted_, truths_;
  double loss_ = 0;
  std::int64_t losses_ = 0;
};

/// Columns file, and of each target what is true and what is predicted, NAME and NAME_predicted.
std::string predictions_csv(const RegressionEvaluation& evaluation, const std::vector<NamedSample>& names);

/// Columns target, mae, rmse, r2, mape.
std::string per_target_csv(const RegressionEvaluation& evaluation);

}  // namespace neurim
