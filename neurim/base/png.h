// Images as PNG files (ISO/IEC 15948).
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace neurim {

/// How levels lie: row-major height x width x channels (1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha), of 8
/// bits, or 16 in the byte order of this machine.
struct PngLayout {
  int height = 0, width = 0, channels = 3, bits = 8;
};

enum class PngContent {
  photo,
  drawing,  ///< flat colours, which need no filters and little search: a tenth of the time
};

/// The bytes of a PNG with exactly these levels. Throws Error(resource).
std::string encode_png(const PngLayout& layout, std::span<const std::byte> levels, PngContent content);

}  // namespace neurim
