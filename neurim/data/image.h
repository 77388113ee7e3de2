// A decoded image.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neurim {

/// The most channels that an image may have.
inline constexpr int kMostChannels = 512;

/// Converts a pixel value to another number of bits: the nearest one, white stays white.
template <class To, class From>
To value_as(From value) {
  if constexpr (sizeof(To) == sizeof(From)) return value;
  if constexpr (sizeof(To) > sizeof(From)) return static_cast<To>(value * 257);
  return static_cast<To>((value * 255u + 32767) / 65535);
}

/// Height, width and channels of an image, and the bits of a pixel value: 8, or 16 in the byte order of this machine.
struct ImageSize {
  int height = 0, width = 0, channels = 0, bits = 8;  ///< pixels, channels, and bits of a pixel value
  /// Their number.
  std::size_t values() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  }
  /// Bytes of a pixel.
  int pixel_bytes() const { return channels * bits / 8; }
  /// Bytes of all pixel values.
  std::size_t bytes() const { return values() * static_cast<std::size_t>(bits) / 8; }
  bool operator==(const ImageSize&) const = default;
};

/// A rectangle of whole pixels.
struct Box {
  int top = 0, left = 0, height = 0, width = 0;  ///< pixels
  bool operator==(const Box&) const = default;
};

/// The pixels that show some of `box` in an image `reduction` times smaller.
inline Box reduced(const Box& box, int reduction) {
  const int top = box.top / reduction, left = box.left / reduction;
  return {top, left, (box.top + box.height + reduction - 1) / reduction - top,
          (box.left + box.width + reduction - 1) / reduction - left};
}

/// An image: u8 or u16, row-major height x width x channels; 1 channel is gray, 2 are gray and alpha, 3 RGB, 4 RGB and
/// alpha, more are whatever they are. The memory grows and never shrinks, so that an Image which is used again for one
/// image after the other soon allocates no more.
class Image {
 public:
  /// Makes room for an image of this size; the content is undefined.
  void reshape(ImageSize size) {
    size_ = size;
    if (pixels_.size() < size.bytes()) pixels_.resize(size.bytes());
  }
  /// All of them.
  ImageSize size() const { return size_; }
  /// Rows.
  int height() const { return size_.height; }
  /// Columns.
  int width() const { return size_.width; }
  /// Of a pixel.
  int channels() const { return size_.channels; }
  /// The whole image.
  Box box() const { return {0, 0, size_.height, size_.width}; }
  /// The first row.
  std::uint8_t* data() { return pixels_.data(); }
  /// The first row.
  const std::uint8_t* data() const { return pixels_.data(); }
  /// Of 8 bits.
  std::uint8_t* row(int y) { return data() + offset(y); }
  /// Of 8 bits.
  const std::uint8_t* row(int y) const { return data() + offset(y); }
  /// The pixel values of a row: Value is std::uint8_t or, of 16 bits, std::uint16_t.
  template <class Value>
  Value* values(int y = 0) {
    return reinterpret_cast<Value*>(row(y));
  }
  /// The same of a const image.
  template <class Value>
  const Value* values(int y = 0) const {
    return reinterpret_cast<const Value*>(row(y));
  }

 private:
  std::size_t offset(int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(size_.width) *
           static_cast<std::size_t>(size_.pixel_bytes());
  }

  ImageSize size_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace neurim
