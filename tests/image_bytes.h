// Files of the rarer formats, put together byte by byte, and files that are broken in a certain way.
#pragma once
#include <webp/encode.h>

#include <array>

#include "tests/images.h"

namespace neurim {

using std::string_literals::operator""s;

/// A bitmap with BITMAPINFOHEADER; `palette` holds 4 bytes a colour, `rows` the lowest first.
inline std::string bmp_of(int height, int width, int depth, const std::string& palette, const std::string& rows,
                          std::uint32_t compression = 0) {
  const std::string info = little(40, 4) + little(static_cast<std::uint32_t>(width), 4) +
                           little(static_cast<std::uint32_t>(height), 4) + little(1, 2) +
                           little(static_cast<std::uint32_t>(depth), 2) + little(compression, 4) +
                           std::string(12, '\0') + little(compression == 3 ? 0 : palette.size() / 4, 4) + little(0, 4);
  const std::size_t data = 14 + info.size() + palette.size();
  return "BM" + little(data + rows.size(), 4) + little(0, 4) + little(data, 4) + info + palette + rows;
}

struct TiffOptions {
  int orientation = 1;
  int photometric = -1;         // -1: black is 0, or RGB
  std::vector<int> extra = {};  // what the samples are that are no colours
  std::string color_map = "";   // 16-bit levels
  int sample_format = 1;
};

/// An uncompressed TIFF of one strip.
inline std::string tiff_of(int height, int width, int samples, int bits, const std::string& rows,
                           const TiffOptions& options = {}) {
  using Entry = std::array<std::uint64_t, 4>;  // tag, type, count, value or offset
  std::string blocks = rows;
  const auto place = [&](const std::string& block) {
    blocks += block;
    return 8 + blocks.size() - block.size();
  };
  const auto number = [](int value) { return static_cast<std::uint64_t>(value); };
  const auto shorts = [&](std::uint64_t tag, const std::vector<int>& values) {  // up to two lie in the entry
    std::string block;
    for (const int value : values) block += little(number(value), 2);
    const std::uint64_t second = values.size() == 2 ? number(values[1]) << 16 : 0;
    return Entry{tag, 3, values.size(), values.size() > 2 ? place(block) : number(values[0]) | second};
  };
  const int colors = samples - static_cast<int>(options.extra.size());
  std::vector<Entry> entries{{256, 4, 1, number(width)},
                             {257, 4, 1, number(height)},
                             shorts(258, std::vector<int>(static_cast<std::size_t>(samples), bits)),
                             {259, 3, 1, 1},
                             {262, 3, 1,
                              options.photometric >= 0 ? number(options.photometric)
                              : colors == 1            ? 1u
                                                       : 2u},
                             {273, 4, 1, 8},
                             {274, 3, 1, number(options.orientation)},
                             {277, 3, 1, number(samples)},
                             {278, 4, 1, number(height)},
                             {279, 4, 1, rows.size()}};
  if (!options.color_map.empty()) entries.push_back({320, 3, options.color_map.size() / 2, place(options.color_map)});
  if (!options.extra.empty()) entries.push_back(shorts(338, options.extra));
  if (options.sample_format != 1) entries.push_back({339, 3, 1, number(options.sample_format)});
  if (blocks.size() % 2) blocks += '\0';
  std::string file = "II*\0"s + little(8 + blocks.size(), 4) + blocks + little(entries.size(), 2);
  for (const auto& [tag, type, count, value] : entries)
    file += little(tag, 2) + little(type, 2) + little(count, 4) + little(value, 4);
  return file + little(0, 4);
}

/// A lossless WebP of RGB or RGBA.
inline std::string webp_of(const Image& image) {
  std::uint8_t* bytes = nullptr;
  const int stride = image.width() * image.channels();
  const std::size_t size = image.channels() == 3
                               ? WebPEncodeLosslessRGB(image.data(), image.width(), image.height(), stride, &bytes)
                               : WebPEncodeLosslessRGBA(image.data(), image.width(), image.height(), stride, &bytes);
  const std::string file(reinterpret_cast<char*>(bytes), size);
  WebPFree(bytes);
  return file;
}

inline std::string webp_chunk(const std::string& name, const std::string& content) {
  return name + little(content.size(), 4) + content + std::string(content.size() % 2, '\0');
}

/// A WebP in its extended container (WebP Container Specification, "VP8X"), with these chunks.
inline std::string extended_webp(int height, int width, std::uint8_t flags, const std::string& chunks) {
  const std::string body = "WEBP" +
                           webp_chunk("VP8X", little(flags, 4) + little(static_cast<std::uint64_t>(width - 1), 3) +
                                                  little(static_cast<std::uint64_t>(height - 1), 3)) +
                           chunks;
  return "RIFF" + little(body.size(), 4) + body;
}

/// The image of a WebP of webp_of as a frame of an animation, its corner at even numbers of pixels.
inline std::string webp_frame(const std::string& webp, const Image& image, int top = 0, int left = 0) {
  return webp_chunk(
      "ANMF", little(static_cast<std::uint64_t>(left / 2), 3) + little(static_cast<std::uint64_t>(top / 2), 3) +
                  little(static_cast<std::uint64_t>(image.width() - 1), 3) +
                  little(static_cast<std::uint64_t>(image.height() - 1), 3) + little(100, 3) + "\0"s + webp.substr(12));
}

inline std::string webp_animation(int height, int width, const std::string& frames) {
  constexpr std::uint8_t kAnimated = 0x02, kAlpha = 0x10;
  return extended_webp(height, width, kAnimated | kAlpha, webp_chunk("ANIM", std::string(6, '\0')) + frames);
}

/// EXIF of one entry, the orientation.
inline std::string exif_of(int orientation) {
  return "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0"s + little(static_cast<std::uint64_t>(orientation), 4) +
         little(0, 4);
}

inline std::string jpeg_with_exif(const std::string& jpeg, const std::string& exif) {
  const std::size_t size = exif.size() + 8;
  return jpeg.substr(0, 2) + "\xFF\xE1" + static_cast<char>(size >> 8) + static_cast<char>(size) + "Exif\0\0"s + exif +
         jpeg.substr(2);
}

/// Changes `count` bytes of the JPEG's frame header, which begins with the marker FF C0 to FF C2: length 2
/// bytes, then precision 1 (at 4), height 2 (at 5), width 2 (at 7).
inline std::string with_frame_header(std::string jpeg, std::size_t at, const std::string& bytes) {
  for (std::size_t i = 2; i + 1 < jpeg.size();) {
    const auto byte = [&](std::size_t j) { return static_cast<unsigned>(static_cast<unsigned char>(jpeg[j])); };
    if (byte(i + 1) >= 0xC0 && byte(i + 1) <= 0xC2) return jpeg.replace(i + at, bytes.size(), bytes);
    i += 2 + (byte(i + 2) << 8 | byte(i + 3));
  }
  ADD_FAILURE() << "no frame header";
  return jpeg;
}

inline std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + checked + big_endian(static_cast<std::uint32_t>(crc));
}

/// The PNG with a chunk more, right after its header.
inline std::string png_with(const std::string& png, const std::string& chunk) {
  return png.substr(0, 33) + chunk + png.substr(33);
}

/// The PNG with another size in its header.
inline std::string png_resized(const std::string& png, std::uint32_t height, std::uint32_t width) {
  return png.substr(0, 8) + png_chunk("IHDR", big_endian(width) + big_endian(height) + png.substr(24, 5)) +
         png.substr(33);
}

/// The PNG without its chunks of this name.
inline std::string png_without(const std::string& png, const std::string& name) {
  const std::size_t at = png.find(name) - 4;
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(png[at + i])); };
  return png.substr(0, at) + png.substr(at + 12 + (byte(2) << 8 | byte(3)));
}

inline std::string deflated(const std::string& text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
           static_cast<uLong>(text.size()));
  return packed.substr(0, size);
}

/// A text chunk that is small and expands to so many bytes.
inline std::string png_text_bomb(std::size_t bytes) {
  return png_chunk("zTXt", "Comment\0\0"s + deflated(std::string(bytes, 'a')));
}

}  // namespace neurim
