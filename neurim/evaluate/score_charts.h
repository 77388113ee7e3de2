// Charts of how good a classifier's answers and probabilities are, and the numbers of a regression. `what` names model,
// data and split, for the heading.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/probabilities.h"
#include "neurim/evaluate/regression_evaluation.h"

namespace neurim {

/// The curves of each class against the others.
struct ClassCurves {
  std::vector<std::string> class_names;            ///< in the order of the classes
  ClassAreas areas;                                ///< below the curves
  std::function<std::vector<CurvePoint>(int)> of;  ///< that of a class
};

/// True over false positive rate of each class; of two classes that of the second, of more than six those of the least
/// area.
Canvas roc_chart(const ClassCurves& curves, const std::string& what);

/// Precision over recall, of the same classes by their average precision.
Canvas precision_recall_chart(const ClassCurves& curves, const std::string& what);

/// The accuracy of answers over their confidence, beside what it would be of honest ones, and how many there are.
Canvas reliability_chart(const Probabilities& probabilities, const std::string& what);

/// Precision, recall and F1 of each class with samples, the weakest first; of more than 40 classes the 40 weakest.
Canvas class_scores_chart(const std::vector<ClassScores>& scores, const std::vector<std::string>& class_names,
                          const std::string& what);

/// What is predicted over what is true, a point a sample, of a target in its units.
Canvas predicted_over_true(const RegressionEvaluation& evaluation, std::size_t target, const std::string& what);

}  // namespace neurim
