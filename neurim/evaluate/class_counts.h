// How many samples each class has, as a picture.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace neurim {

struct ClassCounts {
  std::string split;                ///< "train", …
  std::vector<std::int64_t> counts;  ///< of each class
};

/// A PNG with a bar for each class and split; of more than 60 classes the most and the least frequent.
std::string class_counts_picture(const std::vector<std::string>& class_names,
                                 const std::vector<ClassCounts>& splits);

}  // namespace neurim
