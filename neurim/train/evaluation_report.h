// An evaluation of a classifier of images as the files of a folder.
#pragma once
#include <string>

#include "neurim/base/file.h"
#include "neurim/data/dataset.h"
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/headline.h"
#include "neurim/evaluate/multi_label_csv.h"
#include "neurim/evaluate/predictions.h"
#include "neurim/train/robustness.h"
#include "neurim/train/slices.h"

namespace neurim {

/// What was evaluated, by names that people know.
struct EvaluationSubject {
  std::string model, data;
  Split split = Split::val;
  std::string line() const;  ///< "MODEL on DATA, val"
};

/// What is evaluated beside the split as a whole, where asked for.
struct EvaluationExtras {
  std::string slices_by = {};
  std::vector<DataSlice> slices = {};
  std::vector<Corrupted> corrupted = {};
};

/// Writes metrics.json: what was evaluated, how many samples it has, and the metrics.
void write_metrics(const char* task, const EvaluationSubject& subject, std::int64_t samples,
                   const std::vector<std::string>& class_names, const std::vector<HeadlineMetric>& metrics,
                   const fs::path& folder);

/// Writes into `folder`, which is made where it does not exist: metrics.json; predictions.csv, mistakes.csv,
/// label_issues.csv, per_class.csv, most_confused.csv and confusion_matrix.csv; the charts confusion_matrix,
/// confusion_matrix_normalized, roc, precision_recall, reliability and class_scores as PNG and SVG; mistakes.jpg, the
/// 64 worst answers, and most_confused.jpg, images of the pairs of classes that are confused most; slices.csv and
/// corruptions.csv where there are such; and report.html, which has all of these. Throws Error(resource).
void write_evaluation(const Evaluation& evaluation, const Predictions& predictions, const ClassAreas& areas,
                      const std::vector<HeadlineMetric>& metrics, const Dataset& dataset,
                      const EvaluationSubject& subject, const EvaluationExtras& extras, const fs::path& folder);

/// The same of multi-label data: metrics.json; predictions.csv and mistakes.csv; per_class.csv; roc, precision_recall
/// and class_scores; mistakes.jpg; and report.html. Throws Error(resource).
void write_evaluation(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names,
                      const ClassAreas& areas, const std::vector<HeadlineMetric>& metrics, const Dataset& dataset,
                      const EvaluationSubject& subject, const fs::path& folder);

/// The same of numbers: metrics.json; predictions.csv and per_target.csv; of up to eight targets a chart
/// predicted_over_true, with "_" and its number from 1 where there are several; worst.jpg; and report.html. Throws
/// Error(resource).
void write_evaluation(const RegressionEvaluation& evaluation, const std::vector<NamedSample>& names,
                      const std::vector<HeadlineMetric>& metrics, const Dataset& dataset,
                      const EvaluationSubject& subject, const fs::path& folder);

}  // namespace neurim
