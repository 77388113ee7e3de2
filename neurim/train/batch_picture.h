// What a model is shown.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/batch_source.h"

namespace neurim {

/// A JPEG with the first pictures of a batch as the model gets them, normalising undone, and their classes.
std::string batch_picture(const Batch& batch, const Preprocess& preprocess,
                          const std::vector<std::string>& class_names);

}  // namespace neurim
