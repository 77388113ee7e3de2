#include "neurim/data/transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "neurim/data/augmentations/geometry.h"
#include "neurim/data/wide.h"

namespace neurim {
namespace {

/// out[i] = value * scale + shift for the pixel values in[0], in[step], in[2 * step], …
template <class Value>
[[gnu::always_inline]] inline void normalise_row(const Value* __restrict in, int step, int count, float scale,
                                                 float shift, float* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<float>(in[step * i]) * scale + shift;
}

NEURIM_WIDE void normalise(const std::uint8_t* in, int channels, int count, float scale, float shift, float* out) {
  switch (channels) {  // the most frequent, as constants
    case 1: return normalise_row(in, 1, count, scale, shift, out);
    case 3: return normalise_row(in, 3, count, scale, shift, out);
    default: return normalise_row(in, channels, count, scale, shift, out);
  }
}

NEURIM_WIDE void normalise(const std::uint16_t* in, int channels, int count, float scale, float shift, float* out) {
  normalise_row(in, channels, count, scale, shift, out);
}

NEURIM_WIDE void mirror_row(const float* __restrict in, int count, float* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = in[count - 1 - i];
}

/// 0.299, 0.587 and 0.114 in 16 bits; they sum to 65536.
template <class Value>
Value luma(Value red, Value green, Value blue) {
  return static_cast<Value>((red * 19595u + green * 38470u + blue * 7471u + 0x8000u) >> 16);
}

/// The channels of an image as another has them, by the rules of Preprocess.
template <class In, class Out>
void recolor(const Image& from, const std::array<std::uint8_t, 3>& background, Image& to) {
  const int before = from.channels(), after = to.channels();
  const In* in = from.values<In>();
  const In* end = in + from.size().values();
  Out* out = to.values<Out>();
  if (before == after) return void(std::transform(in, end, out, value_as<Out, In>));
  constexpr std::uint32_t most = std::numeric_limits<Out>::max();
  const bool colored = before >= 3, has_alpha = before % 2 == 0, keeps_alpha = after % 2 == 0;
  for (; in != end; in += before, out += after) {
    const Out alpha = has_alpha ? value_as<Out>(in[before - 1]) : static_cast<Out>(most);
    std::array<Out, 3> rgb{value_as<Out>(in[0]), value_as<Out>(in[colored]), value_as<Out>(in[colored * 2])};
    if (has_alpha && !keeps_alpha)
      for (std::size_t c = 0; c < 3; ++c)
        rgb[c] = static_cast<Out>(
            (std::uint32_t{rgb[c]} * alpha + value_as<Out>(background[c]) * (most - alpha) + most / 2) / most);
    if (after >= 3)
      std::copy(rgb.begin(), rgb.end(), out);
    else
      out[0] = luma(rgb[0], rgb[1], rgb[2]);
    if (keeps_alpha) out[after - 1] = alpha;
  }
}

/// The whole number nearest to size * to / of, at least 1.
int scaled(int size, int to, int of) {
  return static_cast<int>(std::max<std::int64_t>(1, (std::int64_t{2} * size * to + of) / (std::int64_t{2} * of)));
}

}  // namespace

Transform::Transform(const Preprocess& preprocess, const Augment& augment)
    : preprocess_(preprocess), augment_(augment), resampler_(preprocess.interpolation) {
  preprocess_.check();
  augment_.check();
  for (const auto& augmentation : augment_.augmentations) {
    require(augmentation->moves_only() || preprocess.bits == 8, "changes: ", augmentation->text(),
            " takes levels of 8 bits; leave it out, or use bits=8");
    require(augmentation->moves_only() || (preprocess.channels <= 4 && preprocess.channels != 2),
            "changes: ", augmentation->text(), " takes images of 1, 3 or 4 channels, not of ", preprocess.channels,
            "; leave it out");
  }
  line_.resize(preprocess_.width);
  const auto of = [](const std::vector<double>& list, std::size_t c) { return list.size() == 1 ? list[0] : list[c]; };
  for (std::size_t c = 0; c < static_cast<std::size_t>(preprocess_.channels); ++c) {
    const double mean = of(preprocess_.mean, c), std = of(preprocess_.std, c);
    scale_.push_back(static_cast<float>(1 / ((preprocess_.bits == 16 ? 65535 : 255) * std)));
    shift_.push_back(static_cast<float>(-mean / std));
  }
}

const Image& Transform::fit(Decoder& decoder, Random& random) {
  const ImageHeader& header = decoder.header();
  const int height = preprocess_.height, width = preprocess_.width;
  Box part{0, 0, header.height, header.width};
  Placement to{height, width, {0, 0, height, width}};
  if (augment_.random_resized_crop)
    part = random_part(augment_, header.height, header.width, random);
  else
    to = placement_of(preprocess_, header.height, header.width, augment_.crop_at);
  const int reduction = decoder.reduction(part, to.height, to.width);
  const Box found = decoder.read(part, decoded_, reduction);
  const Image& in = with_channels(decoded_);
  const bool fits = in.size() == preprocess_.size() && to.height == height && to.width == width;
  if (fits && found == in.box()) return in;
  fitted_.reshape(preprocess_.size());
  if (to.window.height < height || to.window.width < width)
    std::memset(fitted_.data(), preprocess_.fill, fitted_.size().bytes());
  resampler_.resize(in, found, to.height, to.width, to.window, fitted_, to.top, to.left, reduction);
  return fitted_;
}

const Image& Transform::upright(Decoder& decoder) {
  decoder.read(decoded_);
  return with_channels(decoded_);
}

Placement placement_of(const Preprocess& preprocess, int in_height, int in_width, CropAt at) {
  const int height = preprocess.height, width = preprocess.width;
  if (preprocess.resize == ResizeMode::squash) return {height, width, {0, 0, height, width}};
  if (preprocess.resize == ResizeMode::letterbox) {
    const bool by_height = static_cast<std::int64_t>(height) * in_width <= static_cast<std::int64_t>(width) * in_height;
    const int h = by_height ? height : std::min(scaled(in_height, width, in_width), height);
    const int w = by_height ? std::min(scaled(in_width, height, in_height), width) : width;
    return {h, w, {0, 0, h, w}, (height - h) / 2, (width - w) / 2};
  }
  const ImageSize whole = preprocess.covering(in_height, in_width);
  return {whole.height, whole.width,
          five_crops(whole.height, whole.width, height, width)[static_cast<std::size_t>(at)]};
}

const Image& Transform::with_channels(const Image& decoded) {
  const ImageSize from = decoded.size();
  const int channels = preprocess_.channels, bits = preprocess_.bits;
  if (from.channels == channels && from.bits == bits) return decoded;
  if (from.channels != channels && (from.channels > 4 || channels > 4))
    fail(Fault::data, "it has ", from.channels, " channels and the model takes ", channels,
         "; train a model with in_chans=", from.channels, ", or convert the image");
  recolored_.reshape({from.height, from.width, channels, bits});
  const std::uint8_t* in = decoded.data();
  const std::uint8_t* end = in + from.bytes();
  std::uint8_t* out = recolored_.data();
  const auto& background = preprocess_.decode.background;
  if (from.bits == 16) {
    bits == 16 ? recolor<std::uint16_t, std::uint16_t>(decoded, background, recolored_)
               : recolor<std::uint16_t, std::uint8_t>(decoded, background, recolored_);
  } else if (bits == 16) {
    recolor<std::uint8_t, std::uint16_t>(decoded, background, recolored_);
  } else if (from.channels == 1 && channels == 3) {  // the most frequent
    for (; in != end; ++in, out += 3) out[0] = out[1] = out[2] = *in;
  } else if (from.channels == 3 && channels == 1) {
    for (; in != end; in += 3, ++out) *out = luma(in[0], in[1], in[2]);
  } else {
    recolor<std::uint8_t, std::uint8_t>(decoded, background, recolored_);
  }
  return recolored_;
}

void Transform::finish(const std::uint8_t* fitted, Random& random, float* out) {
  if (!augment_.augmentations.empty()) {
    changed_.reshape(preprocess_.size());
    std::memcpy(changed_.data(), fitted, changed_.size().bytes());
    for (const auto& augmentation : augment_.augmentations) augmentation->apply(changed_, scratch_, random);
    fitted = changed_.data();
  }
  const Pose pose = random_pose(augment_, random);
  if (pose.down != 0 || pose.right != 0) {
    moved_.reshape(preprocess_.size());
    move_pixels(pose.down, pose.right, preprocess_.fill, fitted, preprocess_.size(), moved_.data());
    fitted = moved_.data();
  }
  if (preprocess_.bits == 16)
    write_planes(reinterpret_cast<const std::uint16_t*>(fitted), pose.mirrored, out);
  else
    write_planes(fitted, pose.mirrored, out);
}

template <class Value>
void Transform::write_planes(const Value* fitted, bool mirrored, float* out) {
  const int height = preprocess_.height, width = preprocess_.width, channels = preprocess_.channels;
  for (int y = 0; y < height; ++y)
    for (int c = 0; c < channels; ++c) {
      const Value* row = fitted + static_cast<std::int64_t>(y) * width * channels + c;
      float* to = out + (static_cast<std::int64_t>(c) * height + y) * width;
      const auto channel = static_cast<std::size_t>(c);
      normalise(row, channels, width, scale_[channel], shift_[channel], mirrored ? line_.data() : to);
      if (mirrored) mirror_row(line_.data(), width, to);
    }
}

void Transform::operator()(Decoder& decoder, float* out) {
  Random none(0);
  finish(fit(decoder, none).data(), none, out);
}

}  // namespace neurim
