// Mixing the images of a batch: MixUp and CutMix.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "neurim/core/random.h"
#include "neurim/data/resample.h"

namespace neurim {

/// MixUp (Zhang et al. 2017) and CutMix (Yun et al. 2019), one choice for a whole batch, as timm's Mixup in
/// batch mode. An alpha of 0 switches its method off.
struct MixOptions {
  double mixup_alpha = 0.8,         ///< MixUp: lambda is drawn from Beta(alpha, alpha)
      cutmix_alpha = 1;             ///< CutMix: the same
  double probability = 1;           ///< of mixing at all
  double switch_probability = 0.5;  ///< of CutMix where both are on
  void check() const;               ///< throws Error(usage) naming the option that is out of range
};

/// What happens to the images of one batch.
struct Mix {
  /// The method.
  enum class Kind { none, mixup, cutmix };
  Kind kind = Kind::none;  ///< none: images stay as they are
  double lambda = 1;       ///< the share of the own image; of CutMix the area that is left
  Box box{};               ///< of CutMix: the part that comes from the partner
};

/// Draws: probability, switch (where both are on), lambda, and for CutMix the box's middle, row then column.
/// The box has 1 - lambda of the area before it is cut at the image's border.
Mix draw_mix(const MixOptions& options, int height, int width, Random& random);

/// The memory that mix_images works in. It grows and never shrinks.
struct MixBuffers {
  std::vector<float> image;  ///< the first image of a cycle of the permutation
  std::vector<char> done;    ///< per image, which ones are mixed
};
/// Mixes f32 images (n, c, h, w), row-major, in place: image i with what image partner[i] was before.
/// `partner` is a permutation of [0, n) (else Error(usage)); timm's is the reverse order.
void mix_images(const Mix& mix, std::span<const int> partner, int channels, int height, int width,
                std::span<float> images, MixBuffers& buffers);

}  // namespace neurim
