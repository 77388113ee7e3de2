// Executes a Preprocess and an Augment.
#pragma once
#include <vector>

#include "neurim/data/augment.h"
#include "neurim/data/preprocess.h"

namespace neurim {

/// Where Preprocess::resize puts an image: it is scaled to height x width, of which `window` stands in the result at
/// (top, left); the rest of the result is Preprocess::fill.
struct Placement {
  int height = 0, width = 0;  ///< of the resized image
  Box window;                 ///< the part of the original that is resized
  int top = 0, left = 0;      ///< where it is in the result
};
/// Where an image of this size goes.
Placement placement_of(const Preprocess& preprocess, int height, int width, CropAt at = CropAt::center);

/// Turns images into model inputs. Holds buffers: one Transform serves one thread, and soon
/// allocates no more.
class Transform {
 public:
  /// Throws Error(usage) for an augmentation that the preprocessing does not allow.
  explicit Transform(const Preprocess& preprocess, const Augment& augment = {});

  /// Whether what `fit` gives follows from the image and the Preprocess alone, so that it may be kept.
  bool fit_is_fixed() const { return !augment_.random_resized_crop && augment_.crop_at == CropAt::center; }

  /// The image that `decoder` has opened, in the model's channels, size and bits. Of a random part only
  /// that is decoded, and no larger than DecodeOptions::scaled asks for. The result lives until the next call.
  const Image& fit(Decoder& decoder, Random& random);

  /// The whole image that `decoder` has opened, upright, in the model's channels and bits, of its own size. The result
  /// lives until the next call.
  const Image& upright(Decoder& decoder);

  /// The rest: changes, pose and normalising of a fitted image of preprocess.size(), by its bytes. Writes channels x
  /// height x width floats.
  void finish(const std::uint8_t* fitted, Random& random, float* out);

  /// Both at once: what validation and prediction see. For a Transform without an Augment.
  void operator()(Decoder& decoder, float* out);

 private:
  const Image& with_channels(const Image& decoded);
  template <class Value>
  void write_planes(const Value* fitted, bool mirrored, float* out);

  Preprocess preprocess_;
  Augment augment_;
  std::vector<float> scale_, shift_;  // of each channel: out = value * scale + shift
  Resampler resampler_;
  Image decoded_, recolored_, fitted_, changed_, moved_;
  Scratch scratch_;
  std::vector<float> line_;
};

}  // namespace neurim
