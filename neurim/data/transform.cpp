#include "neurim/data/transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/data/changes/geometry.h"
#include "neurim/data/wide.h"

namespace neurim {
namespace {

/// out[i] = level * scale + shift for the levels in[0], in[step], in[2 * step], …
template <int step>
[[gnu::always_inline]] inline void normalise_row(const std::uint8_t* __restrict in, int count, float scale,
                                                 float shift, float* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<float>(in[step * i]) * scale + shift;
}

NEURIM_WIDE void normalise_gray(const std::uint8_t* in, int count, float scale, float shift, float* out) {
  normalise_row<1>(in, count, scale, shift, out);
}

NEURIM_WIDE void normalise_of_rgb(const std::uint8_t* in, int count, float scale, float shift, float* out) {
  normalise_row<3>(in, count, scale, shift, out);
}

NEURIM_WIDE void mirror_row(const float* __restrict in, int count, float* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = in[count - 1 - i];
}

int scaled(int size, double ratio) { return std::max(1, static_cast<int>(std::lround(size * ratio))); }

}  // namespace

Transform::Transform(const Preprocess& preprocess, const Augment& augment)
    : preprocess_(preprocess), augment_(augment), resampler_(preprocess.interpolation) {
  preprocess_.check();
  augment_.check();
  line_.resize(static_cast<std::size_t>(preprocess_.width));
  const auto of = [](const std::vector<double>& list, std::size_t c) {
    return list.size() == 1 ? list[0] : list[c];
  };
  for (std::size_t c = 0; c < static_cast<std::size_t>(preprocess_.channels); ++c) {
    const double mean = of(preprocess_.mean, c), deviation = of(preprocess_.std, c);
    scale_[c] = static_cast<float>(1 / (255 * deviation));
    shift_[c] = static_cast<float>(-mean / deviation);
  }
}

const Image& Transform::fit(Decoder& decoder, Random& random) {
  const ImageHeader& header = decoder.header();
  if (augment_.random_resized_crop) {
    const Box part =
        decoder.read(random_part(augment_, header.height, header.width, random), decoded_);
    const Image& in = with_channels(decoded_);
    fitted_.reshape(preprocess_.size());
    resampler_.resize(in, part, preprocess_.height, preprocess_.width, fitted_.box(), fitted_);
    return fitted_;
  }
  decoder.read(decoded_);
  const Image& in = with_channels(decoded_);
  const bool cuts = preprocess_.resize == ResizeMode::crop && preprocess_.crop_pct != 1;
  if (in.size() == preprocess_.size() && !cuts) return in;
  resize(in);
  return fitted_;
}

void Transform::resize(const Image& in) {
  const int height = preprocess_.height, width = preprocess_.width;
  const Box from{0, 0, in.height(), in.width()};
  fitted_.reshape(preprocess_.size());
  const double fit_y = static_cast<double>(height) / in.height(),
               fit_x = static_cast<double>(width) / in.width();
  switch (preprocess_.resize) {
    case ResizeMode::squash:
      return resampler_.resize(in, from, height, width, {0, 0, height, width}, fitted_);
    case ResizeMode::letterbox: {
      const double ratio = std::min(fit_y, fit_x);
      const int h = std::min(scaled(in.height(), ratio), height),
                w = std::min(scaled(in.width(), ratio), width);
      std::memset(fitted_.data(), preprocess_.fill, fitted_.size().bytes());
      return resampler_.resize(in, from, h, w, {0, 0, h, w}, fitted_, (height - h) / 2, (width - w) / 2);
    }
    case ResizeMode::crop: {
      const ImageSize whole = preprocess_.covering(in.height(), in.width());
      const Box part =
          five_crops(whole.height, whole.width, height, width)[static_cast<std::size_t>(augment_.crop_at)];
      return resampler_.resize(in, from, whole.height, whole.width, part, fitted_);
    }
  }
}

const Image& Transform::with_channels(const Image& decoded) {
  if (decoded.channels() == preprocess_.channels) return decoded;
  recolored_.reshape({decoded.height(), decoded.width(), preprocess_.channels});
  const std::uint8_t* from = decoded.data();
  const std::uint8_t* end = from + decoded.size().bytes();
  std::uint8_t* to = recolored_.data();
  if (preprocess_.channels == 3) {
    for (; from != end; ++from, to += 3) to[0] = to[1] = to[2] = *from;
  } else {
    // 0.299, 0.587 and 0.114 in 16 bits; they sum to 65536.
    for (; from != end; from += 3, ++to)
      *to =
          static_cast<std::uint8_t>((from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >> 16);
  }
  return recolored_;
}

void Transform::finish(const std::uint8_t* fitted, Random& random, float* out) {
  if (!augment_.changes.empty()) {
    changed_.reshape(preprocess_.size());
    std::memcpy(changed_.data(), fitted, changed_.size().bytes());
    for (const auto& change : augment_.changes) change->apply(changed_, scratch_, random);
    fitted = changed_.data();
  }
  const Pose pose = random_pose(augment_, random);
  if (pose.down != 0 || pose.right != 0) {
    moved_.reshape(preprocess_.size());
    move_pixels(pose.down, pose.right, preprocess_.fill, fitted, preprocess_.size(), moved_.data());
    fitted = moved_.data();
  }
  const int height = preprocess_.height, width = preprocess_.width, channels = preprocess_.channels;
  const auto normalise = channels == 1 ? normalise_gray : normalise_of_rgb;
  for (int y = 0; y < height; ++y)
    for (int c = 0; c < channels; ++c) {
      const std::uint8_t* row = fitted + static_cast<std::int64_t>(y) * width * channels + c;
      float* to = out + (static_cast<std::int64_t>(c) * height + y) * width;
      const auto channel = static_cast<std::size_t>(c);
      normalise(row, width, scale_[channel], shift_[channel], pose.mirrored ? line_.data() : to);
      if (pose.mirrored) mirror_row(line_.data(), width, to);
    }
}

void Transform::operator()(Decoder& decoder, float* out) {
  Random none(0);
  finish(fit(decoder, none).data(), none, out);
}

}  // namespace neurim
