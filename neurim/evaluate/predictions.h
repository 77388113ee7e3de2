// A classifier's answers, sample by sample.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "neurim/evaluate/probabilities.h"

namespace neurim {

/// The answer for a sample.
struct Prediction {
  std::int64_t sample = 0;  ///< its number in the split
  std::string name;         ///< what it is called, such as a path
  std::int64_t label = 0,   ///< its class
      predicted = 0;        ///< the class that is answered
  double confidence = 0,    ///< the probability of what is predicted
      probability = 0,      ///< that of the label
      loss = 0;             ///< -log probability, as in Probabilities::log_loss
  /// Whether the answer is the label.
  bool right() const { return label == predicted; }
};

/// All answers of a split, in the order in which they were added.
class Predictions {
 public:
  /// Throws Error(usage) with fewer than two classes.
  explicit Predictions(std::vector<std::string> class_names);

  /// Adds a sample by its logits, whose softmax are the probabilities. The prediction is the first of the largest.
  /// Throws Error(failure) with the sample's name where one is NaN.
  void add_logits(std::int64_t sample, const std::string& name, std::span<const float> logits, std::int64_t label);
  /// The same by its probabilities.
  void add(std::int64_t sample, const std::string& name, std::span<const float> probabilities, std::int64_t label);
  /// The same with its prediction, of which the probability is a largest one.
  void add_answer(std::int64_t sample, const std::string& name, std::span<const float> probabilities,
                  std::int64_t label, std::size_t predicted);

  const std::vector<std::string>& class_names() const { return names_; }  ///< as constructed
  const std::vector<Prediction>& samples() const { return samples_; }     ///< in the order of add
  const Probabilities& probabilities() const { return probabilities_; }   ///< of all classes

  /// The places of the wrong answers, by falling loss; of equal ones in their order.
  std::vector<std::size_t> mistakes() const;

 private:
  std::vector<std::string> names_;
  std::vector<Prediction> samples_;
  Probabilities probabilities_;
};

/// A label that is probably wrong.
struct LabelIssue {
  std::size_t place = 0;       ///< in Predictions::samples
  std::int64_t suggested = 0;  ///< the class that it is more likely of
  double score = 0;            ///< the probability of its label: the lower, the more suspicious
};

/// The samples whose label is less likely than another class, the most suspicious first (self-confidence: Northcutt,
/// Jiang and Chuang, "Confident learning", JAIR 70, 2021). The model must not have been trained on them.
std::vector<LabelIssue> label_issues(const Predictions& predictions);

/// Columns file, label, predicted, confidence, probability, loss and correct; of up to 100 classes also the probability
/// of each, "p:" and its name.
std::string predictions_csv(const Predictions& predictions);
/// Columns file, label, predicted, confidence, probability and loss of Predictions::mistakes.
std::string mistakes_csv(const Predictions& predictions);
/// Columns file, label, suggested and score.
std::string label_issues_csv(const Predictions& predictions);

}  // namespace neurim
