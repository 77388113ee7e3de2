// Learned and drawn sequences of operations: AutoAugment, RandAugment, TrivialAugment and AugMix.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "neurim/core/random.h"
#include "neurim/data/augmentations/scratch.h"

namespace neurim {

/// The operations that policies choose from.
enum class Operation {
  identity,      ///< value: none
  autocontrast,  ///< none
  equalize,      ///< none
  invert,        ///< none
  rotate,        ///< degrees, counter-clockwise
  posterize,     ///< bits that stay
  solarize,      ///< threshold
  solarize_add,  ///< levels added below 128
  color,         ///< factor of adjust_saturation
  contrast,      ///< factor
  brightness,    ///< factor
  sharpness,     ///< factor
  shear_x,       ///< the input's x is x + value y, from the upper left corner
  shear_y,       ///< the input's y is y + value x
  translate_x,   ///< pixels to the right, whole (fractions cut off)
  translate_y,   ///< pixels down, whole
};

/// An operation with its value, whose unit is the operation's.
struct Step {
  Operation operation = Operation::identity;
  double value = 0;
  bool operator==(const Step&) const = default;
};

/// What comes from outside in a policy's warps: middle gray, in all channels.
constexpr std::uint8_t kPolicyFill = 128;

/// Carries a step out. Warps are bilinear and show kPolicyFill outside.
void apply_step(const Step& step, Image& image, Scratch& scratch);

/// At most this many steps an image.
constexpr int kMaxSteps = 16;
struct Steps {
  std::array<Step, kMaxSteps> list{};
  int count = 0;
  void add(const Step& step) { list[count++] = step; }
};

/// The policies of Cubuk et al. 2018, "AutoAugment: Learning Augmentation Policies from Data" (appendix): 25
/// pairs of operations each, compared with torchvision's tables, with the magnitudes that torchvision gives
/// the levels 0 to 9 (shear 0.3, translation 150/331 of the side, 30 degrees, factor 1 +- 0.9 at level 9;
/// enhancements, shear, translation and rotation take either sign). Draws: the pair, then for each operation
/// probability and, if signed, sign.
enum class AutoPolicy { imagenet, cifar10, svhn };
Steps draw_auto_augment(AutoPolicy policy, int height, int width, Random& random);

/// RandAugment (Cubuk et al. 2019) with timm's options. Levels lie in [0, mmax]; 10 is an operation's full
/// range (rotation 30 degrees, shear 0.3, translation 0.45 of the side, factor 0.1 to 1.9, posterize 4 bits,
/// solarize 256, solarize_add 110).
struct RandAugment {
  double magnitude = 10;     ///< m, in [0, 10 or mmax]
  double std = 0;            ///< mstd: of a normal distribution; above 100: uniform in [0, magnitude]
  double largest = 10;       ///< mmax: where a drawn level is cut
  bool increasing = false;   ///< inc1: more is always a stronger change (inc0: posterize, solarize and factors
                             ///< run their range, so that 10 changes posterize and solarize least)
  int count = 2;             ///< n: operations an image, in [1, 13]
  double probability = 0.5;  ///< p: of each chosen operation
  bool weighted = false;     ///< w0: timm's weights of choice, without repetition
};
/// Draws for each operation: the choice, probability, level (if mstd > 0), sign (if signed).
Steps draw_rand_augment(const RandAugment& options, int height, int width, Random& random);
RandAugment parse_rand_augment(std::string_view text);  ///< rand-m9-mstd0.5-mmax10-inc1-n2-p0.5-w0, any order
std::string to_text(const RandAugment& options);

/// TrivialAugmentWide (Müller and Hutter 2021): one of 14 operations with one of 31 magnitudes, ranges as in
/// torchvision. Draws: operation, magnitude (if it has one), sign (if signed).
Step draw_trivial_augment(Random& random);

/// AugMix (Hendrycks et al. 2019) with timm's options: `width` chains of operations are mixed with Dirichlet
/// weights, and the mixture with the image by Beta(alpha, alpha).
struct AugMix {
  double magnitude = 3;  ///< m, in [0, 10]
  int width = 3;         ///< w, in [1, 16]
  int depth = -1;        ///< d, in [1, 16]; -1 draws 1 to 3 for each chain
  double alpha = 1;      ///< a > 0
  double std = 101;      ///< mstd, as RandAugment's: uniform levels by default
};
/// Draws: weights, share, then for each chain its depth (if drawn) and for each operation choice, level,
/// sign.
void apply_aug_mix(const AugMix& options, Image& image, Scratch& scratch, Random& random);
AugMix parse_aug_mix(std::string_view text);  ///< augmix-m3-w3-d-1-a1-mstd101, any order
std::string to_text(const AugMix& options);

}  // namespace neurim
