// From the bytes of a picture file to pixels.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/image.h"

namespace neurim {

/// The rules of decoding that change pixels.
struct DecodeOptions {
  bool exif = true;  ///< turn the picture upright as its EXIF orientation says
  /// What shows through transparent pixels: result = alpha * pixel + (1 - alpha) * background.
  std::array<std::uint8_t, 3> background{255, 255, 255};
  bool operator==(const DecodeOptions&) const = default;
};

/// Decodes pictures; holds the buffers that it needs, so one Decoder serves one thread.
///
/// Formats, told by their first bytes and never by the file name: JPEG (baseline, progressive, gray, CMYK and
/// YCCK; inks are turned to RGB by R = C'K'/255 with C' and K' the light that the ink lets through) and PNG
/// (all colour types and depths; of 16 bits the upper 8; an animated PNG gives its default picture). Colour
/// profiles are not applied. The result has 1 channel where the file is gray, else 3.
class Decoder {
 public:
  /// Pictures of more pixels are refused before any memory is taken for them.
  static constexpr std::int64_t kMostPixels = 100'000'000;

  /// Decodes the bytes of a file; `name` is what errors call it. Returns the EXIF orientation that was undone
  /// (1: none). Throws Error(data) with name and reason where the picture is damaged, cut off, too large or
  /// of another format.
  int decode(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions& options,
             Image& image);

  /// Reads and decodes a file.
  int decode_file(const std::string& path, const DecodeOptions& options, Image& image);

 private:
  std::vector<std::byte> file_;
  Image scratch_;
};

}  // namespace neurim
