// How good the probabilities of a classifier are, beyond its most likely class.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "neurim/evaluate/intervals.h"
#include "neurim/evaluate/score_curve.h"

namespace neurim {

/// The answers of a range of confidences.
struct ReliabilityBin {
  std::int64_t samples = 0;  ///< how many there are
  double confidence = 0,     ///< mean probability of the answered class; 0 without samples
      accuracy = 0;          ///< share of right answers; 0 without samples
};

/// Keeps the probabilities of all samples. Samples may be added in several objects and merged: in any order all metrics
/// have the same bits.
class Probabilities {
 public:
  /// Throws Error(usage) with fewer than two classes.
  explicit Probabilities(int classes);

  /// Adds n samples: `probabilities` (n, classes) row by row, in [0, 1], and `labels` (n) in [0, classes). Throws
  /// Error(usage) when sizes do not fit, Error(failure) for a NaN; then it adds nothing.
  void add(std::span<const float> probabilities, std::span<const std::int64_t> labels);
  void merge(const Probabilities& other);  ///< Adds everything that `other` has; throws Error(usage) for other classes.

  int classes() const { return classes_; }                                            ///< how many
  std::int64_t samples() const { return static_cast<std::int64_t>(labels_.size()); }  ///< that were added

  std::span<const float> row(std::size_t place) const;  ///< those of the sample at this place

  /// -log p, in nats; p is at least 2.2e-16 and at most 1 less that, as in scikit-learn's log_loss.
  static double loss(double probability);
  /// The loss of the labels' probabilities.
  const SampleMean& log_loss() const { return log_loss_; }
  /// The sum over classes of (p - [it is the label])^2; of two classes half of that (Brier, Monthly Weather Review 78,
  /// 1950; scikit-learn's brier_score_loss).
  const SampleMean& brier() const { return brier_; }
  /// The answers by their confidence in `bins` ranges of equal width, each without its upper end; the last one more is
  /// of confidence 1.
  std::vector<ReliabilityBin> reliability(int bins = 15) const;
  /// Expected calibration error: the mean over samples of |accuracy - confidence| of their bin (Naeini et al., AAAI
  /// 2015), with its interval of fixed bins. NaN without samples.
  SampleMean calibration_error(int bins = 15) const;

  /// Of class `c`.
  std::vector<CurvePoint> curve(int c) const;
  /// Of all classes; of two the mean is that of the second.
  ClassAreas areas() const;

 private:
  std::vector<Score> scores(int c) const;

  int classes_;
  std::vector<float> probabilities_;  // (samples, classes)
  std::vector<std::int64_t> labels_;  // (samples)
  SampleMean log_loss_, brier_;
};

}  // namespace neurim
