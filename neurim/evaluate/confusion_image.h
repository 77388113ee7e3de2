// The confusion matrix as an image.
#pragma once
#include <string>

#include "neurim/evaluate/evaluation.h"

namespace neurim {

enum class Cells {
  counts,  ///< samples
  shares,  ///< of the true class's samples, in percent (each row sums to 100)
};

/// A PNG of the matrix: true classes from top to bottom, predicted ones from left to right, correct cells in
/// blue and confusions in orange, with names, numbers and colour bars. Numbers are left out and names thinned
/// out or shortened where they could not be read. Above 1,000 classes a pixel is the largest cell of several
/// classes.
std::string confusion_image(const Evaluation& evaluation, Cells cells);

}  // namespace neurim
