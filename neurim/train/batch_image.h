// Images of training batches, for people to look at.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/batch_source.h"

namespace neurim {

/// What was mixed into a batch's images (augmentations/mix.h): their own share, and the labels of their partners, for
/// samples of one class.
struct MixedIn {
  double lambda = 1;
  std::span<const std::int64_t> labels{};
  bool numbers = false;  ///< the targets are numbers, not shares of classes
};

/// The pixels (height x width x 3) of an image as a model gets it, with normalization undone; of images without three
/// channels the first is all of them.
std::vector<std::uint8_t> shown_pixels(std::span<const float> image, const Preprocess& preprocess);

/// A JPEG of the first images of a batch as the model sees them, with normalization undone, and their classes, with
/// shares where images are mixed.
std::string batch_image(const Batch& batch, const Preprocess& preprocess, const std::vector<std::string>& class_names,
                        const MixedIn& mixed = {});

}  // namespace neurim
