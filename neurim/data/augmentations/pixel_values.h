// Changes of pixel values by a table of 256 entries, and of colour. They leave a fourth channel (alpha)
// alone. Results equal Pillow's ImageEnhance and ImageOps within 1 (those of tables exactly).
#pragma once
#include "neurim/data/image.h"

namespace neurim {

/// From black (0) over the image itself (1) to brighter; factor >= 0. ImageEnhance.Brightness.
void adjust_brightness(Image& image, double factor);
/// From the mean of the gray image (0) over the image itself (1) to more; factor >= 0.
/// ImageEnhance.Contrast.
void adjust_contrast(Image& image, double factor);
/// 255 - value. ImageOps.invert.
void invert(Image& image);
/// Inverts the values from `threshold` on, in [0, 256]. ImageOps.solarize.
void solarize(Image& image, int threshold);
/// Adds `add` to the values below `threshold`, cut at 255 (timm's solarize_add).
void solarize_add(Image& image, int add, int threshold = 128);
/// Keeps the `bits` highest bits of a value, in [0, 8]. ImageOps.posterize, which begins at 1.
void posterize(Image& image, int bits);
/// Makes the histogram of each channel flat. ImageOps.equalize.
void equalize(Image& image);
/// Stretches each channel to [0, 255]. ImageOps.autocontrast without a cutoff.
void autocontrast(Image& image);
/// value -> 255.999 gain (value / 255)^gamma, cut at 255; gamma, gain >= 0. torchvision's adjust_gamma of
/// PIL.
void adjust_gamma(Image& image, double gamma, double gain = 1);

/// Gray by the luma of ITU-R BT.601, kept in all colour channels. Identity on 1 channel.
void to_gray(Image& image);
/// From gray (0) over the image itself (1) to more colourful; factor >= 0. Identity on 1 channel.
/// ImageEnhance.Color.
void adjust_saturation(Image& image, double factor);
/// Turns the hue by `turn` in [-0.5, 0.5] of the circle. As torchvision's adjust_hue of PIL, through Pillow's
/// HSV with 8 bits a channel, whose rounding alone changes colours by some values. Identity on 1 channel.
void adjust_hue(Image& image, double turn);

}  // namespace neurim
