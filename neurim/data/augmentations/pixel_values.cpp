#include "neurim/data/augmentations/pixel_values.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace neurim {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

std::uint8_t to_value(double value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)); }

int color_channels(const Image& image) { return std::min(image.channels(), 3); }

template <class F>
Table table_of(const F& f) {
  Table table;
  for (int value = 0; value < 256; ++value) table[value] = f(value);
  return table;
}

/// Applies the table to channel c, or to all colour channels.
void map_channel(Image& image, int c, const Table& table) {
  const int channels = image.channels();
  std::uint8_t* end = image.data() + image.size().bytes();
  for (std::uint8_t* at = image.data() + c; at < end; at += channels) *at = table[*at];
}

void map_values(Image& image, const Table& table) {
  for (int c = 0; c < color_channels(image); ++c) map_channel(image, c, table);
}

Histogram histogram(const Image& image, int c) {
  Histogram counts{};
  const std::uint8_t* end = image.data() + image.size().bytes();
  for (const std::uint8_t* at = image.data() + c; at < end; at += image.channels()) ++counts[*at];
  return counts;
}

/// Between a (0) and b (1) or beyond; fractions are cut off, in f32, as Pillow's blend does.
std::uint8_t blend(int a, int b, float factor) {
  return static_cast<std::uint8_t>(
      std::clamp(static_cast<float>(a) + factor * static_cast<float>(b - a), 0.0f, 255.0f));
}

/// 0.299, 0.587 and 0.114 in 16 bits; they sum to 65536.
int luma(const std::uint8_t* rgb) {
  return static_cast<int>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/// Calls f(pixel) for each pixel of 3 or 4 channels.
template <class F>
void for_each_color(Image& image, const F& f) {
  if (image.channels() < 3) return;
  std::uint8_t* end = image.data() + image.size().bytes();
  for (std::uint8_t* at = image.data(); at < end; at += image.channels()) f(at);
}

/// Hue and saturation in [0, 255] (the value is the largest channel); fractions are cut off.
struct HueSaturation {
  std::uint8_t hue = 0, saturation = 0;
};

HueSaturation hue_saturation(const std::uint8_t* rgb) {
  const int high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {};
  const float range = static_cast<float>(high - low);
  const float r = static_cast<float>(high - rgb[0]) / range, g = static_cast<float>(high - rgb[1]) / range,
              b = static_cast<float>(high - rgb[2]) / range;
  const float sixths = rgb[0] == high   ? b - g
                       : rgb[1] == high ? static_cast<float>(2.0 + r - b)
                                        : static_cast<float>(4.0 + g - r);
  const float hue = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
  return {to_value(hue * 255.0), to_value(range / static_cast<float>(high) * 255.0)};
}

void write_hsv(HueSaturation color, int value, std::uint8_t* rgb) {
  const double position = color.hue * 6.0 / 255.0, saturation = color.saturation / 255.0;
  const int sixth = static_cast<int>(position);
  const double part = position - sixth;
  const auto less = [&](double share) { return to_value(std::round(value * (1 - saturation * share))); };
  const std::uint8_t v = static_cast<std::uint8_t>(value), p = less(1), q = less(part), t = less(1 - part);
  const std::uint8_t of[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(of[sixth % 6], 3, rgb);
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  map_values(image, table_of([&](int value) { return blend(0, value, static_cast<float>(factor)); }));
}

void adjust_contrast(Image& image, double factor) {
  std::int64_t sum = 0;
  const std::int64_t pixels = static_cast<std::int64_t>(image.height()) * image.width();
  const std::uint8_t* at = image.data();
  for (std::int64_t i = 0; i < pixels; ++i, at += image.channels()) sum += image.channels() < 3 ? *at : luma(at);
  const int mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  map_values(image, table_of([&](int value) { return blend(mean, value, static_cast<float>(factor)); }));
}

void invert(Image& image) { solarize(image, 0); }

void solarize(Image& image, int threshold) {
  map_values(image,
             table_of([&](int value) { return static_cast<std::uint8_t>(value < threshold ? value : 255 - value); }));
}

void solarize_add(Image& image, int add, int threshold) {
  map_values(image, table_of([&](int value) {
               return static_cast<std::uint8_t>(value < threshold ? std::min(value + add, 255) : value);
             }));
}

void posterize(Image& image, int bits) {
  const int mask = 256 - (1 << (8 - bits));
  map_values(image, table_of([&](int value) { return static_cast<std::uint8_t>(value & mask); }));
}

void equalize(Image& image) {
  for (int c = 0; c < color_channels(image); ++c) {
    const Histogram counts = histogram(image, c);
    std::int64_t pixels = 0, last = 0;
    for (const std::int64_t count : counts) pixels += count, last = count > 0 ? count : last;
    const std::int64_t step = (pixels - last) / 255;
    if (step == 0) continue;
    std::int64_t below = step / 2;
    Table table;
    for (std::size_t value = 0; value < 256; below += counts[value++])
      table[value] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
    map_channel(image, c, table);
  }
}

void autocontrast(Image& image) {
  for (int c = 0; c < color_channels(image); ++c) {
    const Histogram counts = histogram(image, c);
    int low = 0, high = 255;
    while (low < 255 && counts[low] == 0) ++low;
    while (high > 0 && counts[high] == 0) --high;
    if (high <= low) continue;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    map_channel(image, c, table_of([&](int value) { return to_value(value * scale + offset); }));
  }
}

void adjust_gamma(Image& image, double gamma, double gain) {
  map_values(image, table_of([&](int value) { return to_value(255.999 * gain * std::pow(value / 255.0, gamma)); }));
}

void to_gray(Image& image) {
  for_each_color(image, [](std::uint8_t* rgb) { std::fill_n(rgb, 3, static_cast<std::uint8_t>(luma(rgb))); });
}

void adjust_saturation(Image& image, double factor) {
  for_each_color(image, [by = static_cast<float>(factor)](std::uint8_t* rgb) {
    const int gray = luma(rgb);
    for (int c = 0; c < 3; ++c) rgb[c] = blend(gray, rgb[c], by);
  });
}

void adjust_hue(Image& image, double turn) {
  const int by = static_cast<int>(turn * 255);
  for_each_color(image, [by](std::uint8_t* rgb) {
    HueSaturation color = hue_saturation(rgb);
    color.hue = static_cast<std::uint8_t>(color.hue + by);
    write_hsv(color, std::max({rgb[0], rgb[1], rgb[2]}), rgb);
  });
}

}  // namespace neurim
