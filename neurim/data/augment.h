// Random changes of training images.
#pragma once
#include <array>
#include <string_view>

#include "neurim/core/random.h"
#include "neurim/data/augmentations/augmentations.h"
#include "neurim/data/resample.h"

namespace neurim {

/// Which part of the scaled image ResizeMode::crop cuts out; in the order of five_crops.
enum class CropAt : std::uint8_t { top_left, top_right, bottom_left, bottom_right, center };

/// What may happen to an image in training. The default changes nothing. Every choice is drawn from the Random
/// that the caller keys by (seed, sample, epoch, repeat in the epoch), in the order of the fields.
struct Augment {
  /// Instead of Preprocess::resize: a random part of the image, of `scale` times its area and of a width to
  /// height ratio in `ratio` (log-uniform), scaled to the size ("Inception crop", Szegedy et al. 2014).
  bool random_resized_crop = false;
  std::array<double, 2> scale{0.08, 1},  ///< least and largest share of the area
      ratio{3. / 4, 4. / 3};             ///< least and largest width / height
  CropAt crop_at = CropAt::center;       ///< another one in evaluation by several parts
  Augmentations augmentations;           ///< of the resized image, one after the other
  int crop_padding = 0;                  ///< pixels: pad by so many on each side, then cut the size out anywhere
  double hflip = 0;                      ///< the probability of a mirror image

  void check() const;  ///< throws Error(usage) naming the option that is out of range
};

/// The changes that a list names: "rrc" or "rrc(0.35,1)" (random resized crop, with the range of areas),
/// "pad(4)" (crop_padding), "hflip" or "hflip(0.2)", and those of augmentations.h; "none" or "" for none. Throws
/// Error(usage) naming what it does not know.
Augment parse_augment(std::string_view list);

/// The part of an image that random_resized_crop takes.
Box random_part(const Augment& augment, int height, int width, Random& random);

/// How an augmented image lies: it is moved first and mirrored last.
struct Pose {
  int down = 0,           ///< pixels that the image moves down
      right = 0;          ///< pixels that it moves to the right
  bool mirrored = false;  ///< left and right are swapped
};
Pose random_pose(const Augment& augment, Random& random);  ///< draws a pose

/// Writes `in` moved by so many pixels to `out` (same size); what comes from outside is `fill` (of 16 bits: 257
/// times that).
void move_pixels(int down, int right, std::uint8_t fill, const std::uint8_t* in, ImageSize size, std::uint8_t* out);

}  // namespace neurim
