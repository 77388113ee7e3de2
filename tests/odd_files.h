// Broken and odd image files of every kind.
#pragma once
#include <cmath>

#include "tests/image_bytes.h"

namespace neurim {

/// A PNG of zeros, of any colour type and without a palette.
inline std::string raw_png(std::uint32_t width, std::uint32_t height, int depth, int type) {
  const std::string rows((width * static_cast<std::uint32_t>(depth) / 8 + 2) * std::min(height, 64u), '\0');
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  return "\x89PNG\r\n\x1A\n"s +
         png_chunk("IHDR", big_endian(width) + big_endian(height) + static_cast<char>(depth) + static_cast<char>(type) +
                               "\0\0\0"s) +
         png_chunk("IDAT", packed.substr(0, size)) + png_chunk("IEND", "");
}

/// A file, and whether it is to be named as bad.
struct Odd {
  std::string name, bytes;
  bool bad;
};

inline std::vector<Odd> odd_files() {
  const auto waves = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(128 + 60 * std::sin(0.3 * x + c) + 60 * std::cos(0.2 * y * (c + 1)));
  };
  const Image rgb = image_of(48, 40, 3, waves), inks = image_of(48, 40, 4, waves);
  const std::string jpeg = jpeg_of(rgb), png = png_of(rgb);
  const auto with = [](std::string bytes, std::size_t at, const std::string& change) {
    return bytes.replace(at, change.size(), change);
  };
  const std::size_t sof = jpeg.find("\xFF\xC0");  // marker, length, precision, height, width
  std::string exif_loop = jpeg_of(rgb, {.orientation = 3});
  const std::size_t tiff = exif_loop.find("II*");
  exif_loop.replace(tiff + 8 + 2 + 12, 4, little(8, 4));  // the next directory is the first one again
  const std::string gif = gif_frame(4, 4, std::string(16, '\1')), webp = webp_frame(webp_of(rgb), rgb);
  return {
      {"zero-bytes.jpg", "", true},
      {"cut-in-header.jpg", jpeg.substr(0, 40), true},
      {"cut-in-scan.jpg", jpeg.substr(0, jpeg.size() * 2 / 3), true},
      {"wrong-extension.jpg", png, false},
      {"text.jpg", "this is a note\n", true},
      {"html.png", "<!DOCTYPE html><html></html>", true},
      {"bad-marker.jpg", with(jpeg, jpeg.size() / 2, "\xFF\xC8\xFF\x02"), true},
      {"huge.jpg", with(jpeg, sof + 5, "\xFF\xFF\xFF\xFF"), true},
      {"zero-width.jpg", with(jpeg, sof + 7, "\0\0"s), true},
      {"bomb.png", raw_png(60000, 60000, 1, 0), true},
      {"text-bomb.png", png_with(png, png_text_bomb(64 << 20)), true},
      {"bad-crc.png", with(png, png.find("IDAT") + 20, "????"), true},
      {"no-palette.png", raw_png(8, 8, 8, 3), true},
      {"12-bit.jpg", with(jpeg, sof + 4, "\x0C"), true},
      {"arithmetic.jpg", jpeg_of(rgb, {.arithmetic = true}), false},
      {"cmyk.jpg", jpeg_of(inks, {.stored = JCS_CMYK}), false},
      {"ycck.jpg", jpeg_of(inks, {.stored = JCS_YCCK}), false},
      {"16-bit.png",
       raw_png(8, 8, 16, 2).substr(0, 8) +
           png_of(2, 2, std::string(24, 'x'), {SPNG_COLOR_TYPE_TRUECOLOR, 16}).substr(8),
       false},
      {"1-bit.png", raw_png(8, 8, 1, 0), false},
      {"animated.gif", gif_of(4, 4, gif + gif), false},
      {"animated.webp", webp_animation(48, 40, webp + webp), false},
      {"exif-loop.jpg", exif_loop, false},
  };
}

}  // namespace neurim
