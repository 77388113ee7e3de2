// How many samples each class has, as an image.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace neurim {

struct ClassCounts {
  std::string split;                 ///< "train", …
  std::vector<std::int64_t> counts;  ///< of each class
  std::int64_t samples = 0;          ///< of the split; one may have several classes, or none
};

/// A PNG with a bar for each class and split, by falling counts of the first split (of equal ones in the order of the
/// classes), and the counts beside them. Of more than 40 classes the most and the least frequent 15 have bars and
/// names; those between are a curve of their counts. `data`: the name of the data, for the title.
std::string class_counts_image(const std::string& data, const std::vector<std::string>& class_names,
                               const std::vector<ClassCounts>& splits);

}  // namespace neurim
