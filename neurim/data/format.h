// The picture formats behind Decoder: each reads one format as it is stored, not yet turned upright.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "neurim/data/decode.h"

namespace neurim {

/// Ends the decoding of one picture: throws Error(data) "NAME: cannot decode this FORMAT: REASON; …".
[[noreturn]] void bad_image(std::string_view name, std::string_view format, std::string_view reason);
/// Throws Error(data) unless 1 <= width * height <= Decoder::kMostPixels.
void check_pixels(std::string_view name, std::string_view format, std::int64_t height, std::int64_t width);

/// Both write `image` as 1 or 3 channels and return the EXIF orientation that the file states (1 where none).
int read_jpeg(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions& options,
              Image& scratch, Image& image);
int read_png(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions& options,
             Image& scratch, Image& image);

}  // namespace neurim
