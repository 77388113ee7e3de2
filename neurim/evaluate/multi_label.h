// What a classifier of any number of classes a sample got right and wrong.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/score_curve.h"

namespace neurim {

/// Logits and truths of all samples, and every figure that follows from them. A sample is said to have a
/// class when sigmoid(logit) is at least the class's threshold.
class MultiLabelEvaluation {
 public:
  /// The thresholds are 0.5 at first. Throws Error(usage) without a class.
  explicit MultiLabelEvaluation(std::vector<std::string> class_names);

  /// Adds n samples: `logits` (n, classes) row-major, `targets` (n, classes) of 0 and 1. Throws Error(usage)
  /// when the sizes do not fit, Error(failure) for a NaN; a batch that throws adds nothing.
  void add(std::span<const float> logits, std::span<const float> targets);

  /// Adds the mean loss of `samples` samples.
  void add_loss(double mean, std::int64_t samples);

  int classes() const { return static_cast<int>(names_.size()); }         ///< how many
  const std::vector<std::string>& class_names() const { return names_; }  ///< as constructed
  /// How many were added.
  std::int64_t samples() const { return static_cast<std::int64_t>(truths_.size() / names_.size()); }
  double loss() const;  ///< mean over samples; NaN where none was given

  std::vector<CurvePoint> curve(int c) const;  ///< of class `c`, over logits
  ClassAreas areas() const;                    ///< of all classes
  double mean_average_precision() const;       ///< mAP: over the classes that samples have; NaN without one

  bool has(std::int64_t sample, int c) const { return truths_[at(sample, c)] != 0; }  ///< whether it is of the class
  double probability(std::int64_t sample, int c) const;                               ///< sigmoid of the logit
  bool says(std::int64_t sample, int c) const;    ///< whether it is said to be of the class
  bool right(std::int64_t sample) const;          ///< whether every class is right
  double sample_loss(std::int64_t sample) const;  ///< mean over classes of -log of the probability of the truth

  const std::vector<double>& thresholds() const { return thresholds_; }  ///< of each class, probabilities
  /// Throws Error(usage) unless there is one for each class.
  void set_thresholds(std::vector<double> thresholds);
  /// Sets each to the one that gives the best F1 here, in the middle between two probabilities; of equal ones
  /// the nearest to 0.5; 0.5 where no sample has the class. F1 on these same samples flatters.
  void fit_thresholds();

  std::vector<ClassScores> per_class() const;  ///< support: samples that have the class
  /// Its support is the sum over classes. micro: of all decisions, one a sample and class.
  ClassScores average(Average kind) const;
  double exact_match() const;             ///< share of samples with every class right, in [0, 1]; 0 without samples
  Interval exact_match_interval() const;  ///< wilson's
  Estimate f1(Average kind) const;        ///< that of average(kind), macro or micro

 private:
  std::size_t at(std::int64_t sample, int c) const {
    return static_cast<std::size_t>(sample) * names_.size() + static_cast<std::size_t>(c);
  }
  std::vector<Score> scores(int c) const;

  std::vector<std::string> names_;
  std::vector<double> thresholds_;
  std::vector<float> logits_;  // (samples, classes)
  std::vector<char> truths_;   // (samples, classes)
  std::int64_t loss_samples_ = 0;
  double loss_sum_ = 0;
};

/// 1 / (1 + e^-logit)
double probability_of(float logit);

}  // namespace neurim
