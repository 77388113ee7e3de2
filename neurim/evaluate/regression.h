// How far predicted numbers are from the true ones.
#pragma once
#include <span>

#include "neurim/evaluate/intervals.h"

namespace neurim {

/// Accumulates errors. Numbers may be added in several objects and merged: in any order all metrics have the same
/// bits. Metrics are NaN without samples.
class Regression {
 public:
  /// Adds pairs of numbers, in one unit. Throws Error(usage) when there are not as many of both, Error(failure) for one
  /// that is not finite; then it adds nothing.
  void add(std::span<const double> predicted, std::span<const double> truth);
  void merge(const Regression& other);  ///< adds everything that `other` has

  std::int64_t samples() const { return truths_.samples(); }  ///< that were added
  const SampleMean& mae() const { return absolute_; }         ///< mean |error|
  const SampleMean& mse() const { return squared_; }          ///< mean error^2
  double rmse() const;                                        ///< the root of the mean squared error
  /// Mean |error| / |truth|, which is a share, not a percentage; a truth of 0 counts as 2.2e-16, as in scikit-learn.
  const SampleMean& mape() const { return relative_; }
  /// 1 - sum error^2 / sum (truth - its mean)^2; where all truths are equal 1 without errors, else 0. NaN of fewer than
  /// two samples.
  double r2() const;
  /// mae / `naive_mae`, that of a forecast by the value before (Hyndman & Koehler, "Another look at measures of
  /// forecast accuracy", 2006).
  double mase(double naive_mae) const { return absolute_.mean() / naive_mae; }

 private:
  SampleMean absolute_, squared_, relative_, truths_;
};

}  // namespace neurim
