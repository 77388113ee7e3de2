// The figures of a model on a split, as summaries and checkpoints state them.
#pragma once
#include <cstdint>
#include <limits>
#include <span>

namespace neurim {

/// Accuracies, precisions and F1 are shares in [0, 1], the loss is the mean cross entropy; NaN: not taken.
struct Figures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double loss = kNone, f1_macro = kNone;
  double top1 = kNone, top5 = kNone;                          ///< of one class a sample
  double map = kNone, f1_micro = kNone, exact_match = kNone;  ///< of multi-label: see MultiLabelEvaluation
  std::int64_t samples = 0;
  bool multi_label = false;
};

/// A figure as files call it.
struct NamedFigure {
  const char* name;
  double Figures::* value;
};
/// Those of a task, in the order in which files have them.
std::span<const NamedFigure> named_figures(bool multi_label);

class Evaluation;
class MultiLabelEvaluation;
Figures figures_of(const Evaluation& evaluation);
Figures figures_of(const MultiLabelEvaluation& evaluation);  ///< at its thresholds

}  // namespace neurim
