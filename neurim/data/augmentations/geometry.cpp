#include "neurim/data/augmentations/geometry.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr int kFixedLimit = 32768;  // sides from which 16.16 fixed point overflows

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

/// Calls put(output pixel, input point) with the point of every output pixel's centre.
template <class Value, class Put>
void for_each_point(const Warp& m, Image& out, const Put& put) {
  Value* to = out.values<Value>();
  for (int y = 0; y < out.height(); ++y)
    for (int x = 0; x < out.width(); ++x, to += out.channels()) {
      const double u = x + 0.5, v = y + 0.5, depth = m[6] * u + m[7] * v + m[8];
      put(to, Point{(m[0] * u + m[1] * v + m[2]) / depth, (m[3] * u + m[4] * v + m[5]) / depth});
    }
}

/// `fixed`, here and below: the number of channels where the compiler knows it; 0: any.
template <int fixed, class Value>
void put_nearest(const Image& in, std::int64_t y, std::int64_t x, Value fill, Value* to) {
  const int channels = fixed ? fixed : in.channels();
  if (y < 0 || y >= in.height() || x < 0 || x >= in.width())
    std::fill_n(to, channels, fill);
  else
    std::copy_n(in.values<Value>(static_cast<int>(y)) + x * channels, channels, to);
}

template <int fixed, class Value>
void put_bilinear(const Image& in, Point at, Value fill, Value* to) {
  const int channels = fixed ? fixed : in.channels();
  // Written so that a point at infinity or of no number is outside.
  if (!(at.x >= 0 && at.x < in.width() && at.y >= 0 && at.y < in.height())) {
    std::fill_n(to, channels, fill);
    return;
  }
  const double x = at.x - 0.5, y = at.y - 0.5;
  const int column = static_cast<int>(std::floor(x)), row = static_cast<int>(std::floor(y));
  const double dx = x - column, dy = y - row;
  const int left = std::max(column, 0) * channels, right = std::min(column + 1, in.width() - 1) * channels;
  const Value *upper = in.values<Value>(std::max(row, 0)),
              *lower = in.values<Value>(std::min(row + 1, in.height() - 1));
  for (int c = 0; c < channels; ++c) {
    const double above = upper[left + c] + (upper[right + c] - upper[left + c]) * dx;
    const double below = lower[left + c] + (lower[right + c] - lower[left + c]) * dx;
    to[c] = static_cast<Value>(above + (below - above) * dy);
  }
}

std::int64_t fixed_point(double value) { return static_cast<std::int64_t>(std::floor(value * 65536 + 0.5)); }

/// The nearest pixels of an affine warp, in steps of 16.16 fixed point.
template <int fixed, class Value>
void walk_nearest(const Warp& m, const Image& in, Value fill, Image& out) {
  std::int64_t row_x = fixed_point(m[2] + (m[0] + m[1]) * 0.5), row_y = fixed_point(m[5] + (m[3] + m[4]) * 0.5);
  const std::int64_t x_by_x = fixed_point(m[0]), x_by_y = fixed_point(m[1]);
  const std::int64_t y_by_x = fixed_point(m[3]), y_by_y = fixed_point(m[4]);
  Value* to = out.values<Value>();
  for (int y = 0; y < out.height(); ++y, row_x += x_by_y, row_y += y_by_y) {
    std::int64_t from_x = row_x, from_y = row_y;
    for (int x = 0; x < out.width(); ++x, to += in.channels(), from_x += x_by_x, from_y += y_by_x)
      put_nearest<fixed>(in, from_y >> 16, from_x >> 16, fill, to);
  }
}

template <int fixed, class Value>
void warp_channels(const Warp& m, Interpolation interpolation, std::uint8_t value, const Image& in, Image& out) {
  const Value fill = value_as<Value>(value);
  if (interpolation == Interpolation::bilinear) {
    for_each_point<Value>(m, out, [&](Value* to, Point at) { put_bilinear<fixed>(in, at, fill, to); });
  } else if (m[6] == 0 && m[7] == 0 && m[8] == 1 && std::max(in.height(), in.width()) < kFixedLimit) {
    walk_nearest<fixed>(m, in, fill, out);
  } else {
    for_each_point<Value>(m, out, [&](Value* to, Point at) {
      const bool inside = at.x >= 0 && at.x < in.width() && at.y >= 0 && at.y < in.height();
      put_nearest<fixed>(in, inside ? static_cast<int>(at.y) : -1, inside ? static_cast<int>(at.x) : -1, fill, to);
    });
  }
}

/// Solves the n equations of `rows` (n coefficients and the right-hand side each) by elimination with pivots.
template <std::size_t n>
std::array<double, n> solve(std::array<std::array<double, n + 1>, n> rows) {
  for (std::size_t k = 0; k < n; ++k) {
    const auto larger = [&](const auto& a, const auto& b) { return std::abs(a[k]) < std::abs(b[k]); };
    std::swap(rows[k], *std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(k), rows.end(), larger));
    require(std::abs(rows[k][k]) > 1e-9, "perspective: three of the four corners lie in a line");
    for (std::size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double times = rows[i][k] / rows[k][k];
      for (std::size_t j = k; j <= n; ++j) rows[i][j] -= times * rows[k][j];
    }
  }
  std::array<double, n> solution;
  for (std::size_t k = 0; k < n; ++k) solution[k] = rows[k][n] / rows[k][k];
  return solution;
}

}  // namespace

void flip_vertically(Image& image) {
  const std::size_t bytes = image.width() * image.size().pixel_bytes();
  for (int top = 0, bottom = image.height() - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(image.row(top), image.row(top) + bytes, image.row(bottom));
}

void flip_horizontally(Image& image) {
  const int pixel = image.size().pixel_bytes();
  for (int y = 0; y < image.height(); ++y) {
    std::uint8_t *left = image.row(y), *right = left + (image.width() - 1) * pixel;
    for (; left < right; left += pixel, right -= pixel) std::swap_ranges(left, left + pixel, right);
  }
}

void warp(const Warp& warp, Interpolation interpolation, std::uint8_t fill, Image& image, Scratch& scratch) {
  scratch.image.reshape(image.size());
  const auto of = image.size().bits == 16 ? warp_channels<0, std::uint16_t>
                  : image.channels() == 1 ? warp_channels<1, std::uint8_t>
                  : image.channels() == 3 ? warp_channels<3, std::uint8_t>
                                          : warp_channels<0, std::uint8_t>;
  of(warp, interpolation, fill, image, scratch.image);
  std::swap(image, scratch.image);
}

Warp rotation(double degrees, int height, int width) {
  return affine(-degrees, {}, 1, 0, 0, {width * 0.5, height * 0.5});
}

Warp affine(double degrees, Point translate, double scale, double shear_x, double shear_y, Point center) {
  const double turn = radians(degrees), sx = std::tan(radians(shear_x)), y = radians(shear_y);
  // Forward, without the scale: turn * shear in y * shear in x; its determinant is 1.
  const double a = std::cos(turn - y) / std::cos(y), b = -a * sx - std::sin(turn);
  const double c = std::sin(turn - y) / std::cos(y), d = -c * sx + std::cos(turn);
  const double from_x = center.x + translate.x, from_y = center.y + translate.y;
  return {d / scale,  -b / scale, center.x - (d * from_x - b * from_y) / scale,
          -c / scale, a / scale,  center.y - (a * from_y - c * from_x) / scale,
          0,          0,          1};
}

Warp perspective(const std::array<Point, 4>& from, const std::array<Point, 4>& to) {
  std::array<std::array<double, 9>, 8> rows;
  for (std::size_t k = 0; k < 4; ++k) {
    const Point in = from[k], out = to[k];
    rows[2 * k] = {out.x, out.y, 1, 0, 0, 0, -in.x * out.x, -in.x * out.y, in.x};
    rows[2 * k + 1] = {0, 0, 0, out.x, out.y, 1, -in.y * out.x, -in.y * out.y, in.y};
  }
  const std::array<double, 8> m = solve<8>(rows);
  return {m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], 1};
}

std::array<Box, 5> five_crops(int height, int width, int crop_height, int crop_width) {
  require(crop_height >= 1 && crop_height <= height && crop_width >= 1 && crop_width <= width,
          "five_crops: the crop is ", crop_height, "x", crop_width, ", the image ", height, "x", width,
          "; the crop has to fit");
  const int bottom = height - crop_height, right = width - crop_width;
  const int top = static_cast<int>(std::nearbyint(bottom / 2.0)), left = static_cast<int>(std::nearbyint(right / 2.0));
  return {{{0, 0, crop_height, crop_width},
           {0, right, crop_height, crop_width},
           {bottom, 0, crop_height, crop_width},
           {bottom, right, crop_height, crop_width},
           {top, left, crop_height, crop_width}}};
}

}  // namespace neurim
