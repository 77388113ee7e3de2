// What a model wants an image to look like. Training, validation, prediction, export and serving share this
// description.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/decode.h"
#include "neurim/data/resample.h"

namespace neurim {

/// How an image of any size becomes one of the model's.
enum class ResizeMode : std::uint8_t {
  crop,       ///< scaled until it just covers size / crop_pct, then the centre is cut out
  squash,     ///< scaled to the size, the aspect is lost
  letterbox,  ///< scaled to fit inside the size; the rest is `fill`
};

/// A smaller share of an image is a few pixels, and what they are cut from grows beyond what can be counted.
inline constexpr double kLeastCrop = 0.01;

// The words that options and files use. Unknown ones throw Error(usage).
std::string_view name(ResizeMode mode);                    ///< as options name it
ResizeMode resize_mode_named(std::string_view name);       ///< throws Error(usage) for an unknown name
std::string_view name(Interpolation interpolation);        ///< as options name it
Interpolation interpolation_named(std::string_view name);  ///< throws Error(usage) for an unknown name
/// DecodeOptions::scaled: "exact" is false, "scaled" true.
bool scaled_named(std::string_view decode);

/// From a decoded image to the numbers of a model's input: f32 channels x height x width,
/// (value / 255 - mean) / std, of 16 bits (value / 65535 - mean) / std.
///
/// Channels follow from their number: 1 is gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha; 5 and more have no meaning.
/// Where an image has others than the model takes, gray is repeated, colour becomes gray by ITU-R BT.601 luma, a
/// missing alpha is opaque, and alpha that the model does not take shows DecodeOptions::background. To or from 5 and
/// more nothing is converted: Error(data) says what the image has and the model takes.
struct Preprocess {
  int channels = 3;                      ///< 1 to kMostChannels
  int bits = 8;                          ///< of pixel values up to here: 8, or 16, in which images of 8 lose nothing
  int height = 224, width = 224;         ///< pixels
  ResizeMode resize = ResizeMode::crop;  ///< how the image is brought to the size
  double crop_pct = 1;                   ///< in [kLeastCrop, 1], for ResizeMode::crop
  Interpolation interpolation = Interpolation::bilinear;  ///< of the resampling
  std::uint8_t fill = 0;  ///< the pixel value of letterbox borders and of what an Augment moves in from outside
  std::vector<double> mean{0}, std{1};  ///< one for all channels, or one per channel
  DecodeOptions decode;                 ///< of the file
  bool operator==(const Preprocess&) const = default;

  /// Of the result.
  ImageSize size() const { return {height, width, channels, bits}; }
  /// What a Decoder is told: `decode`, with alpha and further samples where the model takes them, and never scaled
  /// where the nearest values are taken as they are.
  DecodeOptions decoding() const;
  /// What the options resize and crop_pct say: "auto" and unset leave things as they are; "shortest" brings the
  /// shorter side to the size and cuts out the centre, which is crop with crop_pct 1 (torchvision's Resize with
  /// CenterCrop of the same size). Throws Error(usage).
  void choose_resize(std::string_view mode, std::optional<double> pct);
  /// What ResizeMode::crop scales an image of this height and width to, before it cuts.
  ImageSize covering(int image_height, int image_width) const;
  /// The share of such an image's area that is cut off for its shape: beyond what crop_pct means to cut.
  double cut_share(int image_height, int image_width) const;
  void check() const;        ///< throws Error(usage) naming the field that is out of range
  std::string json() const;  ///< as model.json has it
  /// The inverse of json. Absent fields keep their defaults; unknown ones and wrong types throw Error(data),
  /// since a step that is skipped in silence costs accuracy in silence.
  static Preprocess from_json(std::string_view json);
};

}  // namespace neurim
