// What a model is shown.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/batch_source.h"

namespace neurim {

/// What was mixed into the images of a batch (changes/mix.h): their share of themselves, and the labels of their
/// partners, where a sample has one class.
struct MixedIn {
  double lambda = 1;
  std::span<const std::int64_t> labels{};
};

/// A JPEG with the first images of a batch as the model gets them, normalising undone, and their classes, with shares
/// where they are mixed.
std::string batch_image(const Batch& batch, const Preprocess& preprocess, const std::vector<std::string>& class_names,
                        const MixedIn& mixed = {});

}  // namespace neurim
