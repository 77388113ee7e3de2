// Filters over neighbouring pixels.
#pragma once
#include "neurim/data/augmentations/scratch.h"

namespace neurim {

/// Gaussian blur of all channels, as torchvision's gaussian_blur: a kernel of `size` pixels (odd) in both
/// directions with std `sigma` > 0 pixels, the image mirrored at its border pixels, values rounded.
/// Within 1 of torchvision, since the sums are separable here. A kernel that reaches further than the
/// image is mirrored again, where torchvision refuses.
void blur(Image& image, int size, double sigma, Scratch& scratch);

/// From smoothed (0) over the image itself (1) to sharpened; factor >= 0. The smoothing weighs a pixel 5
/// and its 8 neighbours 1 each; border pixels stay, and so do images with a side below 3 and alpha. Equals
/// Pillow's ImageEnhance.Sharpness within 1.
void adjust_sharpness(Image& image, double factor, Scratch& scratch);

}  // namespace neurim
