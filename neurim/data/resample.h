// Resizing images.
#pragma once
#include <vector>

#include "neurim/data/image.h"

namespace neurim {

/// How values between pixels come about, as Pillow does it.
enum class Interpolation : std::uint8_t {
  nearest,
  bilinear,
  bicubic,  ///< Keys' cubic convolution with a = -0.5
};

/// Resizes images. The filters of bilinear and bicubic widen with the scale when the image shrinks
/// (antialias). Results agree within 1 with Pillow's NEAREST, BILINEAR and BICUBIC (that of before version 13,
/// or with the columns resized first). Holds buffers: one Resampler serves one thread.
class Resampler {
 public:
  /// With this interpolation.
  explicit Resampler(Interpolation interpolation = Interpolation::bilinear) : interpolation_(interpolation) {}

  /// Scales the part `from` of `in` to `full` (height and width; pixels outside `from` have no influence) and
  /// writes the window `window` of that to `out` at (top, left), which must have room there and as many
  /// channels and bits. Each channel is resized by itself, alpha too.
  ///
  /// `reduction`: each pixel of `in` stands for so many in each direction, and `from` counts these, as Decoder::read
  /// gives them. A pixel that lies in `from` in part has that share of its weight.
  void resize(const Image& in, const Box& from, int full_height, int full_width, const Box& window, Image& out,
              int top = 0, int left = 0, int reduction = 1);

 private:
  /// Of what is resized along an axis: `size` parts of pixels, `reduction` of which make one, from part `offset` of the
  /// first pixel on.
  struct Span {
    int offset = 0, size = 0, reduction = 1;
    bool operator==(const Span&) const = default;
  };
  /// For each output pixel the first input pixel, and `taps` weights (zero past the last).
  struct Axis {
    Span from;
    int full = 0, begin = 0, count = 0, taps = 0;
    std::vector<int> first;
    std::vector<float> weights;
    void plan(Interpolation interpolation, const Span& from_span, int full_size, int begin_at, int out_count);
    float* taps_of(int i) { return weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps); }
    int end() const { return first.back() + taps; }
  };
  template <class Value>
  void rows_first(const Image& in, const Box& from, const Box& window, Image& out, int top, int left);
  template <class Value>
  void columns_first(const Image& in, const Box& from, const Box& window, Image& out, int top, int left);

  Interpolation interpolation_;
  Axis rows_, columns_;
  std::vector<float> line_;
  Image narrow_;  // what columns_first makes of the columns
};

}  // namespace neurim
