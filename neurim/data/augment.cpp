#include "neurim/data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr int kTries = 10;  // for a random part that fits; then the largest central one of an allowed ratio

template <int channels>
void mirror_pixels(const std::uint8_t* in, int count, std::uint8_t* out) {
  const std::uint8_t* from = in + (count - 1) * channels;
  for (int x = 0; x < count; ++x, from -= channels, out += channels)
    for (int c = 0; c < channels; ++c) out[c] = from[c];
}

/// Moves by whole pixels and mirrors: out(y, x) = in(y - down, x' - right), x' counted from the other side
/// when mirrored.
void shift(const Pose& pose, std::uint8_t fill, const std::uint8_t* in, ImageSize size, std::uint8_t* out) {
  const std::size_t row = static_cast<std::size_t>(size.width * size.channels);
  const int right = std::clamp(pose.right, -size.width, size.width), count = size.width - std::abs(right);
  // The columns that stay inside: `from` in the input, `to` in the output.
  const int from = std::max(-right, 0) * size.channels;
  const int to = std::max(pose.mirrored ? -right : right, 0) * size.channels;
  for (int y = 0; y < size.height; ++y, out += row) {
    if (count < size.width || pose.down != 0) std::memset(out, fill, row);
    if (y < pose.down || y >= size.height + pose.down) continue;
    const std::uint8_t* pixels = in + static_cast<std::size_t>(y - pose.down) * row + from;
    if (!pose.mirrored) {
      std::memcpy(out + to, pixels, static_cast<std::size_t>(count * size.channels));
    } else {
      (size.channels == 1 ? mirror_pixels<1> : mirror_pixels<3>)(pixels, count, out + to);
    }
  }
}

/// std::floor as an int; inline where the call of the library function would dominate.
int floor_of(float value) {
  const int whole = static_cast<int>(value);
  return whole - (value < static_cast<float>(whole));
}

/// As shift, then turned about the centre; bilinear between the four neighbours.
template <int channels>
void turn(const Pose& pose, std::uint8_t fill, const std::uint8_t* in, ImageSize size, std::uint8_t* out) {
  const float cosine = static_cast<float>(std::cos(pose.angle)),
              sine = static_cast<float>(std::sin(pose.angle));
  const float middle_y = static_cast<float>(size.height - 1) / 2,
              middle_x = static_cast<float>(size.width - 1) / 2;
  const float side = pose.mirrored ? -1.0f : 1.0f;
  std::uint8_t outside[channels];
  std::fill_n(outside, channels, fill);
  const auto at = [&](int row, int column) -> const std::uint8_t* {
    if (row < 0 || row >= size.height || column < 0 || column >= size.width) return outside;
    return in + (row * size.width + column) * channels;
  };
  for (int y = 0; y < size.height; ++y)
    for (int x = 0; x < size.width; ++x, out += channels) {
      const float dx = static_cast<float>(x) - middle_x, dy = static_cast<float>(y) - middle_y;
      const float from_x = side * (cosine * dx + sine * dy) + middle_x - static_cast<float>(pose.right);
      const float from_y = cosine * dy - sine * dx + middle_y - static_cast<float>(pose.down);
      const int row = floor_of(from_y), column = floor_of(from_x);
      const float v = from_y - static_cast<float>(row), u = from_x - static_cast<float>(column);
      const std::uint8_t* neighbours[] = {at(row, column), at(row, column + 1), at(row + 1, column),
                                          at(row + 1, column + 1)};
      const float weights[] = {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u};
      for (int c = 0; c < channels; ++c) {
        float level = 0.5f;
        for (int k = 0; k < 4; ++k) level += weights[k] * static_cast<float>(neighbours[k][c]);
        out[c] = static_cast<std::uint8_t>(std::min(level, 255.0f));
      }
    }
}

}  // namespace

void Augment::check() const {
  require(scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1, "augment: scale is [", scale[0], ", ",
          scale[1], "]; it needs 0 < low <= high <= 1");
  require(ratio[0] > 0 && ratio[0] <= ratio[1], "augment: ratio is [", ratio[0], ", ", ratio[1],
          "]; it needs 0 < low <= high");
  require(crop_padding >= 0, "augment: crop_padding is ", crop_padding, "; it counts pixels");
  require(hflip >= 0 && hflip <= 1, "augment: hflip is ", hflip, "; it is a probability");
  require(rotation >= 0 && rotation <= 180, "augment: rotation is ", rotation,
          "; it lies in [0, 180] degrees");
  require(brightness >= 0 && brightness <= 1, "augment: brightness is ", brightness, "; it lies in [0, 1]");
}

Box random_part(const Augment& augment, int height, int width, Random& random) {
  const double area = static_cast<double>(height) * width;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(augment.scale[0], augment.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(augment.ratio[0]), std::log(augment.ratio[1])));
    const int w = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int top = static_cast<int>(random.below(static_cast<std::uint32_t>(height - h + 1)));
    const int left = static_cast<int>(random.below(static_cast<std::uint32_t>(width - w + 1)));
    return {top, left, h, w};
  }
  const double ratio = std::clamp(static_cast<double>(width) / height, augment.ratio[0], augment.ratio[1]);
  const int w = std::clamp(static_cast<int>(std::lround(height * ratio)), 1, width);
  const int h = std::clamp(static_cast<int>(std::lround(width / ratio)), 1, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Pose random_pose(const Augment& augment, Random& random) {
  Pose pose;
  if (augment.crop_padding > 0) {
    const auto span = static_cast<std::uint32_t>(2 * augment.crop_padding + 1);
    pose.down = static_cast<int>(random.below(span)) - augment.crop_padding;
    pose.right = static_cast<int>(random.below(span)) - augment.crop_padding;
  }
  if (augment.hflip > 0) pose.mirrored = random.uniform() < augment.hflip;
  if (augment.rotation > 0)
    pose.angle = random.uniform(-augment.rotation, augment.rotation) * std::numbers::pi / 180;
  if (augment.brightness > 0)
    pose.brightness = static_cast<float>(random.uniform(1 - augment.brightness, 1 + augment.brightness));
  return pose;
}

void apply_pose(const Pose& pose, std::uint8_t fill, const std::uint8_t* in, ImageSize size,
                std::uint8_t* out) {
  (pose.angle == 0 ? shift : size.channels == 1 ? turn<1> : turn<3>)(pose, fill, in, size, out);
}

}  // namespace neurim
