// Random changes of training images, named in a list: "hflip,rotate(15),rand-m9-mstd0.5-inc1,erase(0.25)".
//
// p is a probability in [0, 1]; pixel values and fill lie in [0, 255]; what is in brackets may be left out, from
// the right. Geometry: hflip([p=0.5]), vflip([p=0.5]), rotate(degrees, [fill=0]) by a uniform angle in
// [-degrees, degrees], affine(degrees, [translate=0, scale_low=1, scale_high=1, shear=0, fill=0]) with
// translate in parts of the side and shear in degrees, perspective([distortion=0.5, p=0.5, fill=0]) as
// torchvision's RandomPerspective. Colour: jitter(brightness, contrast, saturation, hue) as ColorJitter:
// factors uniform in [1 - x, 1 + x] but not below 0, hue in [-x, x], in a random order; brightness, contrast,
// saturation and sharpness(low, high, [p=1]) by a uniform factor, gamma(low, high, [p=1]), hue(turn, [p=1]),
// gray([p=0.1]), invert([p=0.5]), solarize([threshold=128, p=0.5]), posterize(bits, [p=0.5]),
// equalize([p=0.5]), autocontrast([p=0.5]). Neighbours: blur(size, [low=0.1, high=2, p=1]) by a uniform
// sigma. Faults of cameras and files: noise(std, [p=1]) of the normal distribution, each value for itself, and
// jpeg(low, high, [p=1]) written as a JPEG of a uniform quality and read again. Parts: erase([p=0.5, area_low=0.02,
// area_high=0.3333, ratio_low=0.3, ratio_high=3.3333, fill=noise]). Policies: auto-imagenet, auto-cifar10, auto-svhn,
// rand-m9-mstd0.5-mmax10-inc1-n2-p0.5-w0, trivial, augmix-m3-w3-d-1-a1-mstd101 (timm's strings; sections in any order,
// all optional, none twice).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/core/random.h"
#include "neurim/data/augmentations/scratch.h"

namespace neurim {

/// One entry of the list. Immutable: threads may share it, each with a Scratch of its own.
class Augmentation {
 public:
  virtual ~Augmentation() = default;

  /// Whether it moves or covers pixels and so takes any channels and bits; others take 1, 3 or 4
  /// channels of 8 bits.
  virtual bool moves_only() const { return false; }

  /// Changes an image, whose size stays. Every choice comes from `random`: first
  /// whether the change happens, where it has a p, then its magnitudes in the order of its arguments (jitter:
  /// first its order).
  virtual void apply(Image& image, Scratch& scratch, Random& random) const = 0;

  /// The entry with all its arguments; parse_augmentations reads an equal change from it.
  virtual std::string text() const = 0;
};

using Augmentations = std::vector<std::shared_ptr<const Augmentation>>;  ///< in the order in which they are applied

/// Reads a list. Throws Error(usage) for an unknown name, and for an argument that is missing, too many or
/// out of its range.
Augmentations parse_augmentations(std::string_view list);

/// The entries of such a list: what stands between commas outside of parentheses, without blanks around it. Throws
/// Error(usage) where one is empty.
std::vector<std::string> list_items(std::string_view list);

/// The list that parse_augmentations reads back.
std::string to_text(const Augmentations& augmentations);

}  // namespace neurim
