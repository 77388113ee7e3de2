#include "neurim/data/formats/exif.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {
namespace {

/// Numbers of either byte order out of a block that may end anywhere; past the end they are 0.
class TiffReader {
 public:
  TiffReader(std::span<const std::byte> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}
  std::uint32_t number(std::size_t offset, int width) const {
    const std::size_t size = width;
    if (offset > bytes_.size() || bytes_.size() - offset < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[offset + (big_endian_ ? i : size - 1 - i)]);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

// How each orientation gets at the stored pixel of an upright one: first the axes, then the directions.
bool swaps_axes(int orientation) { return orientation >= 5; }
bool mirrors_x(int orientation) { return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8; }
bool mirrors_y(int orientation) { return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7; }

}  // namespace

int exif_orientation(std::span<const std::byte> tiff) {
  constexpr std::uint32_t kOrientationTag = 0x0112, kShort = 3, kLong = 4;
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (tiff.size() > kPrefix.size() && std::memcmp(tiff.data(), kPrefix.data(), kPrefix.size()) == 0)
    tiff = tiff.subspan(kPrefix.size());
  if (tiff.size() < 8) return 1;
  const bool big_endian = std::to_integer<char>(tiff[0]) == 'M';
  const TiffReader reader(tiff, big_endian);
  if (reader.number(0, 2) != (big_endian ? 0x4D4Du : 0x4949u) || reader.number(2, 2) != 42) return 1;
  const std::size_t directory = reader.number(4, 4);
  const std::uint32_t entries = reader.number(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * static_cast<std::size_t>(i);
    if (reader.number(entry, 2) != kOrientationTag) continue;
    const std::uint32_t type = reader.number(entry + 2, 2);
    const std::uint32_t orientation = reader.number(entry + 8, type == kLong ? 4 : 2);
    const bool sound = (type == kShort || type == kLong) && orientation >= 1 && orientation <= 8;
    return sound ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

Box stored_box(const Box& upright, int orientation, int height, int width) {
  Box box = upright;
  if (swaps_axes(orientation)) {
    std::swap(box.top, box.left);
    std::swap(box.height, box.width);
  }
  if (mirrors_y(orientation)) box.top = height - box.top - box.height;
  if (mirrors_x(orientation)) box.left = width - box.left - box.width;
  return box;
}

Box upright_box(const Box& stored, int orientation, int height, int width) {
  Box box = stored;
  if (mirrors_y(orientation)) box.top = height - box.top - box.height;
  if (mirrors_x(orientation)) box.left = width - box.left - box.width;
  if (swaps_axes(orientation)) {
    std::swap(box.top, box.left);
    std::swap(box.height, box.width);
  }
  return box;
}

void turn_upright(const Image& stored, int orientation, Image& upright) {
  NEURIM_ASSERT(orientation >= 1 && orientation <= 8 && &stored != &upright);
  const bool swapped = swaps_axes(orientation), mirror_x = mirrors_x(orientation), mirror_y = mirrors_y(orientation);
  const ImageSize size = stored.size();
  upright.reshape(swapped ? ImageSize{size.width, size.height, size.channels, size.bits} : size);
  const std::size_t pixel = size.pixel_bytes();
  std::uint8_t* to = upright.data();
  for (int y = 0; y < upright.height(); ++y)
    for (int x = 0; x < upright.width(); ++x, to += pixel) {
      const int row = swapped ? x : y, column = swapped ? y : x;
      const std::uint8_t* from = stored.row(mirror_y ? size.height - 1 - row : row) +
                                 pixel * static_cast<std::size_t>(mirror_x ? size.width - 1 - column : column);
      std::memcpy(to, from, pixel);
    }
}

}  // namespace neurim
