// The confusion matrix as an image.
#pragma once
#include <string>

#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/evaluation.h"

namespace neurim {

enum class Cells {
  counts,  ///< samples
  shares,  ///< of the true class's samples, in percent (each row sums to 100)
};

/// The matrix: true classes from top to bottom, predicted ones from left to right, correct cells in blue and confusions
/// in orange, with names, numbers and colour bars. Numbers are left out and names thinned out or shortened where they
/// could not be read. Of more than 100 classes cluster_chart. `what` names model, data and split, for the heading.
Canvas confusion_chart(const Evaluation& evaluation, Cells cells, const std::string& what = "");

}  // namespace neurim
