// What cameras and files do to images.
#pragma once
#include "neurim/core/random.h"
#include "neurim/data/image.h"

namespace neurim {

/// Adds a normal number of this std to each value but alpha, rounded and cut at 0 and 255.
void add_noise(Image& image, double std, Random& random);

/// The image as a JPEG of this quality, 1 to 100, with colour at half the resolution, shows it. Alpha stays.
void as_jpeg(Image& image, int quality);

}  // namespace neurim
