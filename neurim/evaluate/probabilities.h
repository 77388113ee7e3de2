// How good the probabilities of a classifier are, beyond its most likely class.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "neurim/evaluate/intervals.h"

namespace neurim {

/// A point of a curve of one class against the others: what saying the class from this score on gives.
struct CurvePoint {
  double score = 0;  ///< said from this probability on; the first point of a curve says nothing, at infinity
  std::int64_t true_positives = 0,  ///< samples of the class of which it is said
      false_positives = 0;          ///< other samples of which it is said
};

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
  /// 2015). NaN without samples.
  double calibration_error(int bins = 15) const;

  /// The points at which class `c` is said of more samples, by falling scores; equal scores at once.
  std::vector<CurvePoint> curve(int c) const;
  /// The area under the curve of true over false positives; NaN where all samples have the class, or none.
  double roc_auc(int c) const;
  /// The sum over falling scores of (growth of recall) * precision; NaN where no sample has the class.
  double average_precision(int c) const;
  double roc_auc() const;            ///< of two classes that of the second; else the mean over classes that have one
  double average_precision() const;  ///< the same

 private:
  int classes_;
  std::vector<float> probabilities_;  // (samples, classes)
  std::vector<std::int64_t> labels_;  // (samples)
  SampleMean log_loss_, brier_;
};

}  // namespace neurim
