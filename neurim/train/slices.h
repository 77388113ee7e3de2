// Metrics of parts of a split.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "neurim/data/dataset.h"
#include "neurim/evaluate/predictions.h"

namespace neurim {

/// The samples that have something in common.
struct DataSlice {
  std::string name;
  std::int64_t samples = 0, right = 0;
  double accuracy = 0, log_loss = 0;
  Interval interval;  ///< wilson's, of the accuracy
};

/// The slices of predictions, the least accurate first. `by`: "size", the pixels of an image, and "brightness", the
/// mean of its values in [0, 255], each in up to four ranges of as many samples; "folder", in which a file lies; else a
/// column of the table that the data are, for which `column` gives the cell of a sample by its name. A column of
/// numbers that has more than 20 different ones becomes ranges too. Throws Error(data) for a column of more than 1,000
/// different texts.
std::vector<DataSlice> slices_by(const std::string& by, const Predictions& predictions, const Dataset& dataset,
                                 Split split, const std::function<std::string(const std::string& name)>& column);

/// Columns slice, samples, accuracy, low, high and log_loss.
std::string slices_csv(const std::vector<DataSlice>& slices);

}  // namespace neurim
