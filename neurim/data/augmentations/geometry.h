// Pixels that move: flips, warps and the matrices for them. All channels move together.
#pragma once
#include <array>

#include "neurim/data/augmentations/scratch.h"
#include "neurim/data/resample.h"

namespace neurim {

/// Upside down, in place.
void flip_vertically(Image& image);
/// Left and right exchanged, in place.
void flip_horizontally(Image& image);

/// A point in pixels; (0, 0) is the outer corner of the first pixel, whose centre is (0.5, 0.5).
struct Point {
  double x = 0, y = 0;
};

/// Row-major 3x3 matrix that maps an output point (x, y, 1) to the input point it shows, up to scale.
using Warp = std::array<double, 9>;

/// Nearest or bilinear: every output pixel shows the input at warp(its centre); points outside the image show `fill`.
/// As Pillow's Image.transform: bilinear repeats the border pixels for half a pixel and cuts fractions of values off;
/// nearest walks an affine warp in 16.16 fixed point for sides below 32768. Bilinear agrees with Pillow within one
/// value; nearest may take the neighbour where a point falls between two pixels. A fourth channel moves like the
/// others, where Pillow multiplies the colours with alpha first.
void warp(const Warp& warp, Interpolation interpolation, std::uint8_t fill, Image& image, Scratch& scratch);

/// As torchvision's functional.rotate: counter-clockwise by `degrees` about the image's centre.
Warp rotation(double degrees, int height, int width);

/// As torchvision's functional.affine, about `center`: clockwise by `degrees`, enlarged by `scale` > 0,
/// sheared by (shear_x, shear_y) degrees in (-90, 90), then moved by `translate` pixels (right, down).
Warp affine(double degrees, Point translate, double scale, double shear_x, double shear_y, Point center);

/// As torchvision's functional.perspective: the points `from` of the input appear at `to`, both four corners,
/// no three in a line (else Error(usage)). torchvision 0.14 solves in f32, this in f64.
Warp perspective(const std::array<Point, 4>& from, const std::array<Point, 4>& to);

/// Top left, top right, bottom left, bottom right and central part, as torchvision's five_crop. Throws
/// Error(usage) when the crop is larger than the image.
std::array<Box, 5> five_crops(int height, int width, int crop_height, int crop_width);

}  // namespace neurim
