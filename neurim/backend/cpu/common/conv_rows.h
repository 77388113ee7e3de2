// The band of input rows that direct convolutions copy before the product: converted to the factors' dtype, padded, and
// with the columns of each phase of the stride side by side, so that every tap reads neighbouring columns. For images,
// which have at most four channels, a row of the kernel is one tap: the product sums over its columns and channels,
// which are copied together for each column of the result.
#pragma once
#include <cstring>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/physical.h"

namespace neurim::cpu {

/// The layout of a band: [in block][row][phase][column][words].
struct ConvRows : ConvSizes {
  static constexpr std::int64_t kMostTogether = 3;  ///< output blocks of one product at most
  /// 4-byte words of a column in a block: floats, pairs of bf16 or f16 values, or quads of bytes.
  std::int64_t words;
  StorageDtype pairs = StorageDtype::exact;  ///< the dtype of pairs

  /// How many products a tap sums.
  std::int64_t depth() const { return image() ? in_channels * kernel[1] : in_channels; }
  std::int64_t in_blocks() const { return blocks_of(depth()); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  std::int64_t together() const { return out_width < 10 ? kMostTogether : 2; }
  std::int64_t tap_columns() const { return image() ? 1 : kernel[1]; }
  std::int64_t tap_count() const { return kernel[0] * tap_columns(); }
  /// Whether the kernel is dilated along rows. A band then has one row of the result, so that it holds only rows that
  /// are read.
  bool narrow() const { return options.dilation[0] > 1; }
  std::int64_t row_step() const { return kernel[0] == 1 ? 1 : options.stride[0]; }
  /// Rows of x from one row of the band to the next.
  std::int64_t row_distance() const { return kernel[0] == 1 ? options.stride[0] : options.dilation[0]; }
  std::int64_t phases() const { return tap_columns() == 1 ? 1 : options.stride[1]; }
  /// Columns of a phase.
  std::int64_t columns() const { return out_width + (tap_columns() - 1) * options.dilation[1] / phases(); }
  std::int64_t row_size() const { return phases() * columns() * words; }
  std::int64_t rows(std::int64_t out_rows) const { return (out_rows - 1) * row_step() + kernel[0]; }
  std::int64_t band_size(std::int64_t out_rows) const { return in_blocks() * rows(out_rows) * row_size(); }
  /// Rows of the result whose band has at most `most` words; at least one.
  std::int64_t band_rows(std::int64_t most) const {
    std::int64_t count = 1;
    while (!narrow() && count < out_height && band_size(count + 1) <= most) ++count;
    return count;
  }

  /// The offset of each tap's words from those of the first tap.
  std::vector<std::int64_t> taps() const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < kernel[0]; ++i)
      for (std::int64_t j = 0; j < tap_columns(); ++j) {
        const std::int64_t column = j * options.dilation[1];
        all.push_back(i * row_size() + (column % phases() * columns() + column / phases()) * words);
      }
    return all;
  }

  /// The product that makes a row of the result from a band of `kept` rows; `taps` is what taps() gives.
  BlockProduct product(const std::vector<std::int64_t>& taps, std::int64_t kept, std::int64_t y_block) const {
    return {.rows = out_width,
            .in_channels = depth(),
            .x_block = kept * row_size(),
            .weight_block = in_blocks() * tap_count() * 16 * words,
            .y_block = y_block,
            .pairs = pairs,
            .taps = taps.data(),
            .tap_count = tap_count()};
  }

  /// The columns [first, last) of a phase that are inside x: column `first` is column `from` of x, and each next one is
  /// `apart` columns further.
  struct Columns {
    std::int64_t first, last, from, apart;
  };
  Columns columns_inside(std::int64_t phase) const {
    const std::int64_t apart = kernel[1] == 1 ? options.stride[1] : phases(), begin = phase - options.pad[1],
                       first = std::clamp<std::int64_t>((apart - 1 - begin) / apart, 0, columns());
    return {first, std::clamp((width - begin + apart - 1) / apart, first, columns()), begin + first * apart, apart};
  }

  /// Fills `count` rows of one block of a band, beginning with the first that row `row` of the result reads, and
  /// returns where the next block begins. `padding` is the byte of padding. copy(pixel, apart, columns, to) copies
  /// pixels of x's plane that are `apart` pixels apart, from number `pixel` on.
  template <class T, class Copy>
  T* fill_block(std::int64_t row, std::int64_t count, int padding, T* to, const Copy& copy) const {
    const std::int64_t all = columns(), size = words * 4 / static_cast<std::int64_t>(sizeof(T)),
                       top = row * options.stride[0] - options.pad[0];
    const auto pad = [&](T* at, std::int64_t padded) { std::memset(at, padding, padded * size * sizeof(T)); };
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t phase = 0; phase < phases(); ++phase, to += all * size) {
        const std::int64_t in_row = top + r * row_distance();
        const auto [first, last, from, apart] = columns_inside(phase);
        if (in_row < 0 || in_row >= height || first == last) {
          pad(to, all);
          continue;
        }
        pad(to, first);
        copy(in_row * width + from, apart, last - first, to + first * size);
        pad(to + last * size, all - last);
      }
    return to;
  }

  /// The padded row of an image that all windows read: `all` pixels, of which [first, last) are inside x.
  struct Windows {
    std::int64_t all, first, last;
  };
  Windows windows() const {
    const std::int64_t all = (out_width - 1) * options.stride[1] + kernel[1],
                       last = std::clamp<std::int64_t>(width + options.pad[1], 0, all);
    return {all, std::min<std::int64_t>(options.pad[1], last), last};
  }
  /// Elements of such a row, pixel by pixel, with those that the last block reads past its end.
  std::int64_t line_size() const { return windows().all * in_channels + 2 * 16; }
  /// The same in words.
  std::int64_t line_words() const { return (line_size() * words + 15) / 16; }
  /// Fills `count` rows of a band from the planes of an image, beginning with the first that row `row` of the result
  /// reads; rounds them where factors are pairs. `line` is a workspace of line_words() words.
  void fill_image(const float* planes, std::int64_t row, std::int64_t count, float* line, float* to) const;
};

}  // namespace neurim::cpu
