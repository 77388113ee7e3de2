// The figures of a model on a split, as summaries and checkpoints state them.
#pragma once
#include <cstdint>
#include <limits>

namespace neurim {

/// Accuracies and F1 are shares in [0, 1], the loss is the mean cross entropy; NaN: not taken.
struct Figures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double top1 = kNone, top5 = kNone, loss = kNone, f1_macro = kNone;
  std::int64_t samples = 0;
};
class Evaluation;
Figures figures_of(const Evaluation& evaluation);

}  // namespace neurim
