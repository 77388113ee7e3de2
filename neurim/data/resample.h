// Resizing pictures.
#pragma once
#include <vector>

#include "neurim/data/image.h"

namespace neurim {

/// Resizes by bilinear interpolation whose triangle filter widens with the scale when the picture shrinks
/// (antialias), as Pillow's BILINEAR does; results agree with Pillow within one level. Holds buffers: one
/// Resampler serves one thread.
class Resampler {
 public:
  /// Scales the part `from` of `in` to `full` (height and width; pixels outside `from` have no influence) and
  /// writes the window `window` of that to `out` at (top, left), which must have room there. Channels of
  /// both: 1 or 3.
  void resize(const Image& in, const Box& from, int full_height, int full_width, const Box& window,
              Image& out, int top = 0, int left = 0);

 private:
  /// For each output pixel the first input pixel, and `taps` weights (zero past the last).
  struct Axis {
    int in = 0, full = 0, begin = 0, count = 0, taps = 0;
    std::vector<int> first;
    std::vector<float> weights;
    void plan(int in_size, int full_size, int begin_at, int out_count);
  };
  Axis rows_, columns_;
  std::vector<float> line_;
};

}  // namespace neurim
