// A decoded image.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace neurim {

/// The most channels that an image may have.
inline constexpr int kMostChannels = 512;

/// A level in another number of bits: the nearest one, white stays white.
template <class To, class From>
To level_as(From level) {
  if constexpr (sizeof(To) == sizeof(From)) return level;
  if constexpr (sizeof(To) > sizeof(From)) return static_cast<To>(level * 257);
  return static_cast<To>((level * 255u + 32767) / 65535);
}

/// Height, width and channels of an image, and the bits of a level: 8, or 16 in the byte order of this machine.
struct ImageSize {
  int height = 0, width = 0, channels = 0, bits = 8;
  std::size_t levels() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  }
  int pixel_bytes() const { return channels * bits / 8; }
  std::size_t bytes() const { return levels() * static_cast<std::size_t>(bits) / 8; }
  bool operator==(const ImageSize&) const = default;
};

/// A rectangle of whole pixels.
struct Box {
  int top = 0, left = 0, height = 0, width = 0;
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
  ImageSize size() const { return size_; }
  int height() const { return size_.height; }
  int width() const { return size_.width; }
  int channels() const { return size_.channels; }
  Box box() const { return {0, 0, size_.height, size_.width}; }
  std::uint8_t* data() { return pixels_.data(); }
  const std::uint8_t* data() const { return pixels_.data(); }
  std::uint8_t* row(int y) { return data() + offset(y); }
  const std::uint8_t* row(int y) const { return data() + offset(y); }
  /// The same of levels: Level is std::uint8_t or, of 16 bits, std::uint16_t.
  template <class Level>
  Level* levels(int y = 0) {
    return reinterpret_cast<Level*>(row(y));
  }
  template <class Level>
  const Level* levels(int y = 0) const {
    return reinterpret_cast<const Level*>(row(y));
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
