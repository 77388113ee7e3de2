// Random erasing.
#pragma once
#include <array>

#include "neurim/core/random.h"
#include "neurim/data/resample.h"

namespace neurim {

/// Random erasing of Zhong et al. 2017, "Random Erasing Data Augmentation": a rectangle loses its content.
struct Erasing {
  static constexpr int kNoise = -1;
  double probability = 0.5;
  std::array<double, 2> scale{0.02, 1. / 3};  ///< of the image's area, in (0, 1], uniform
  std::array<double, 2> ratio{0.3, 10. / 3};  ///< height to width, log-uniform
  int fill = kNoise;                          ///< a value, or uniform noise in every pixel and channel
};

/// The rectangle, smaller than the image in both directions as in torchvision's RandomErasing; empty
/// (height 0) when nothing is erased. Draws: probability, then up to ten times area and ratio, at the first
/// that fits top and left.
Box draw_erased(const Erasing& erasing, int height, int width, Random& random);

/// Fills the box in the colour channels; noise takes the bytes of one random number for every four values.
void erase(Image& image, const Box& box, int fill, Random& random);

}  // namespace neurim
