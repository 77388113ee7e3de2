#include "neurim/data/augmentations/filters.h"

#include <algorithm>
#include <cmath>

namespace neurim {
namespace {

/// The pixel that a mirror at the border pixels shows at position i of a side of n pixels.
int mirrored(int i, int n) {
  if (n == 1) return 0;
  const int period = 2 * (n - 1), at = std::abs(i) % period;
  return std::min(at, period - at);
}

}  // namespace

void blur(Image& image, int size, double sigma, Scratch& scratch) {
  const int half = size / 2, height = image.height(), width = image.width(), channels = image.channels();
  const auto taps = static_cast<std::size_t>(size), row = static_cast<std::size_t>(width * channels);
  std::vector<float>& kernel = scratch.kernel;
  if (kernel.size() < taps) kernel.resize(taps);
  double sum = 0;
  for (int k = -half; k <= half; ++k) sum += std::exp(-0.5 * k * k / (sigma * sigma));
  for (int k = -half; k <= half; ++k)
    kernel[k + half] = static_cast<float>(std::exp(-0.5 * k * k / (sigma * sigma)) / sum);

  // Down the columns to a line of floats, then along it, whose ends are mirrored copies.
  const std::size_t margin = static_cast<std::size_t>(half * channels), line = row + 2 * margin;
  if (scratch.lines.size() < line) scratch.lines.resize(line);
  float* const middle = scratch.lines.data() + margin;
  scratch.image.reshape(image.size());
  for (int y = 0; y < height; ++y) {
    std::fill_n(middle, row, 0.0f);
    for (int k = -half; k <= half; ++k) {
      const std::uint8_t* from = image.row(mirrored(y + k, height));
      const float weight = kernel[k + half];
      for (std::size_t i = 0; i < row; ++i) middle[i] += weight * static_cast<float>(from[i]);
    }
    for (int x = 1; x <= half; ++x) {
      std::copy_n(middle + mirrored(-x, width) * channels, channels, middle - x * channels);
      std::copy_n(middle + mirrored(width - 1 + x, width) * channels, channels, middle + (width - 1 + x) * channels);
    }
    std::uint8_t* to = scratch.image.row(y);
    for (std::size_t i = 0; i < row; ++i) {
      const float* from = scratch.lines.data() + i;
      float value = 0;
      for (std::size_t k = 0; k < taps; ++k, from += channels) value += kernel[k] * *from;
      to[i] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0f, 255.0f));
    }
  }
  std::swap(image, scratch.image);
}

void adjust_sharpness(Image& image, double factor, Scratch& scratch) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  if (height < 3 || width < 3) return;
  const float by = static_cast<float>(factor);
  Image& out = scratch.image;
  out.reshape(image.size());
  std::copy_n(image.data(), image.size().bytes(), out.data());
  for (int y = 1; y + 1 < height; ++y)
    for (int x = 1; x + 1 < width; ++x)
      for (int c = 0; c < std::min(channels, 3); ++c) {
        const int i = x * channels + c;
        int sum = 4 * image.row(y)[i];
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx) sum += image.row(y + dy)[i + dx * channels];
        const int smooth = (2 * sum + 13) / 26;  // the sum / 13, rounded
        const float value = static_cast<float>(smooth) + by * static_cast<float>(image.row(y)[i] - smooth);
        out.row(y)[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
      }
  std::swap(image, out);
}

}  // namespace neurim
