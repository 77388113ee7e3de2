// An evaluation as files and as text.
#pragma once
#include <string>

#include "neurim/base/file.h"
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/multi_label.h"

namespace neurim {

/// One row per true class, one column per predicted class, with names in the first row and column.
std::string confusion_matrix_csv(const Evaluation& evaluation);

/// Columns class,precision,recall,f1,support.
std::string per_class_csv(const Evaluation& evaluation);

/// Columns class,threshold,average_precision,precision,recall,f1,support; a metric that is none is empty.
std::string per_class_csv(const MultiLabelEvaluation& evaluation);

/// Columns true,predicted,count,share_of_true; the `limit` most frequent confusions.
std::string most_confused_csv(const Evaluation& evaluation, std::size_t limit = 100);

/// A table for a terminal: a row per class with the weakest classes (lowest F1 among those with samples)
/// marked, then the averages and the accuracy. With more than `max_rows` classes it shows the weakest
/// `max_rows` only.
std::string per_class_table(const Evaluation& evaluation, std::size_t max_rows = 50);
/// The same with the micro average, the exact matches and the mAP.
std::string per_class_table(const MultiLabelEvaluation& evaluation, std::size_t max_rows = 50);

/// Writes confusion_matrix.csv, per_class.csv and most_confused.csv, and with `images` also
/// confusion_matrix.png and confusion_matrix_normalized.png, into `folder`, which is made where it does not
/// exist. Throws Error(resource).
void write_report(const Evaluation& evaluation, const fs::path& folder, bool images = true);
/// Writes per_class.csv: where a sample has any number of classes, none is taken for another.
void write_report(const MultiLabelEvaluation& evaluation, const fs::path& folder);

}  // namespace neurim
