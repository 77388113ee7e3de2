// What a classifier got right and wrong: the confusion matrix and every figure that follows from it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "neurim/evaluate/intervals.h"

namespace neurim {

/// The figures of one class, or an average over classes. All are 0 where they are undefined (no samples), as
/// scikit-learn's `zero_division=0`.
struct ClassScores {
  double precision = 0,      ///< share of the predictions of the class that are right
      recall = 0,            ///< share of the samples of the class that are predicted so
      f1 = 0;                ///< harmonic mean of the two
  std::int64_t support = 0;  ///< samples whose true class this is
};

/// How per-class figures are averaged: `macro` counts each class the same, `micro` each sample (all three
/// figures are then the accuracy), `weighted` each class by its support. Classes without samples take part,
/// with zeros.
enum class Average { macro, micro, weighted };

/// The macro or weighted average of the scores of classes; its support is their sum.
ClassScores average_of(const std::vector<ClassScores>& classes, Average kind);

/// The answers that a threshold leaves.
struct Kept {
  double coverage = 0;  ///< their share of all, in [0, 1]
  double accuracy = 0;  ///< top-1 among them, in [0, 1]; 0 without any
};

/// One cell off the diagonal of the confusion matrix.
struct Confusion {
  int truth = 0,           ///< the true class
      predicted = 0;       ///< the class that was answered
  std::int64_t count = 0;  ///< samples
  double share = 0;        ///< of the true class's samples, in (0, 1]
};

/// Accumulates the outcome of a classifier over batches. Batches may be collected in several objects and
/// merged; the order does not change any count.
class Evaluation {
 public:
  /// Throws Error(usage) with fewer than two classes.
  explicit Evaluation(std::vector<std::string> class_names);

  /// Adds n samples: `logits` (n, classes) row-major, `labels` (n) in [0,
  /// classes). The prediction is the first of the largest logits. Throws Error(usage) when the sizes do not
  /// fit, Error(data) for a label out of range, Error(failure) for a NaN; a batch that throws adds nothing.
  void add(std::span<const float> logits, std::span<const std::int64_t> labels);

  /// Adds a sample by its probabilities, of which `predicted` is a largest one. Throws as `add`.
  void add_answer(std::span<const float> probabilities, std::int64_t predicted, std::int64_t label);

  /// Adds n samples by their predicted class alone; these do not count for top_k. Throws as `add`.
  void add_predictions(std::span<const std::int64_t> predicted, std::span<const std::int64_t> labels);

  /// Adds the mean loss of `samples` samples.
  void add_loss(double mean, std::int64_t samples);

  /// Adds everything that `other` has seen. Throws Error(usage) when its classes differ.
  void merge(const Evaluation& other);

  int classes() const { return static_cast<int>(names_.size()); }         ///< how many
  const std::vector<std::string>& class_names() const { return names_; }  ///< as constructed
  std::int64_t samples() const { return samples_; }                       ///< that were added

  /// How many samples of class `truth` were predicted as `predicted`.
  std::int64_t count(int truth, int predicted) const {
    return confusion_[static_cast<std::size_t>(truth) * names_.size() + static_cast<std::size_t>(predicted)];
  }

  std::int64_t correct() const;  ///< samples that were predicted as what they are
  double accuracy() const;       ///< top-1, in [0, 1]; 0 without samples
  /// Share of the samples (those added with logits) whose true class is among the k largest logits; NaN
  /// without such samples. Of equal logits the lower class index ranks first. With k >= classes it is 1.
  double top_k(int k) const;
  double loss() const;  ///< mean over samples; NaN where none was given

  // An answer's confidence is its probability, the largest softmax of the logits; samples added without logits have
  // none and do not count here.

  /// The largest threshold, in steps of 0.0001, below which no more than 1 - `keep` of the correct answers
  /// lie; NaN without correct answers. Throws Error(usage) unless keep is in [0, 1].
  double reject_threshold(double keep) const;
  /// What is left of the answers when those of a confidence below `threshold` are rejected.
  Kept kept(double threshold) const;

  Interval accuracy_interval() const;    ///< wilson's
  Interval top_k_interval(int k) const;  ///< wilson's

  std::vector<ClassScores> per_class() const;  ///< in the order of class_names()
  /// Share of the samples that are not of the class that are not answered by it; 0 without such samples.
  std::vector<double> specificity() const;
  /// (1 + beta^2) precision recall / (beta^2 precision + recall) of each class, as scikit-learn's fbeta_score; 0 where
  /// it is undefined.
  std::vector<double> f_beta(double beta) const;
  /// Intersection over union of truth and answer of each class (Jaccard), where samples are pixels; their Dice is
  /// ClassScores::f1. 0 where it is undefined.
  std::vector<double> iou() const;

  // Of all classes at once.

  double balanced_accuracy() const;  ///< mean recall over the classes that samples have; NaN without samples
  /// Cohen's kappa: how far the agreement of truth and answer is above that of chance (Cohen, 1960); NaN where chance
  /// agrees always.
  double kappa() const;
  /// Matthews' correlation of truth and answer, of several classes (Gorodkin, 2004); 0 where one of them is always the
  /// same class.
  double matthews() const;
  /// A metric of the confusion matrix, such as &Evaluation::kappa.
  using Metric = std::function<double(const Evaluation&)>;
  /// The bootstrap intervals of metrics.
  std::vector<Interval> intervals(std::span<const Metric> metrics) const;
  /// Leaves classes without samples out of macro averages: a model is evaluated on fewer classes than it knows.
  void leave_out_empty() { subset_ = true; }
  ClassScores average(Average kind) const;  ///< its support is the number of samples

  /// The most frequent confusions, most frequent first (then by true, then by predicted class), at most
  /// `limit`.
  std::vector<Confusion> most_confused(std::size_t limit) const;

 private:
  struct ClassCount {
    std::int64_t truth = 0, predicted = 0, hits = 0;
  };
  void tally(std::size_t truth, std::size_t predicted, std::int64_t samples);
  void count_answer(std::span<const float> scores, std::size_t label, std::size_t predicted, float confidence);
  void check_scores(std::span<const float> scores) const;
  void check_labels(std::span<const std::int64_t> values, const char* what) const;

  std::vector<std::string> names_;
  std::vector<std::int64_t> confusion_;         // (true, predicted)
  std::vector<ClassCount> counts_;              // its sums by class
  std::vector<std::int64_t> ranks_;             // [r]: samples whose true class has r classes before it
  std::vector<float> sure_right_, sure_wrong_;  // confidences of correct and of wrong answers
  std::int64_t samples_ = 0, ranked_ = 0, loss_samples_ = 0;
  ExactSum loss_sum_;
  bool subset_ = false;
};

}  // namespace neurim
