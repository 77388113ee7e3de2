// Decoding, on pictures made here and, where NEURIM_DATA is set, on odd and broken ones.
#include <gtest/gtest.h>
#include <webp/encode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "neurim/core/random.h"
#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/jpeg_rows.h"
#include "tests/pictures.h"

namespace neurim {
namespace {

TEST(Decode, JpegInAllColourSpaces) {
  for (const bool progressive : {false, true}) {
    const Image rgb = decoded(jpeg_of(plain(9, 13, {200, 60, 20}), {.progressive = progressive}));
    EXPECT_EQ(rgb.size(), (ImageSize{9, 13, 3}));
    expect_near(levels(rgb), levels(plain(9, 13, {200, 60, 20})), 3);
  }
  expect_near(levels(decoded(jpeg_of(plain(4, 4, {77})))), levels(plain(4, 4, {77})), 1);
  // Both ink files carry Adobe's marker, so 255 is no ink: R = 200 * 100 / 255.
  for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK})
    expect_near(levels(decoded(jpeg_of(plain(8, 8, {200, 255, 50, 100}), {.stored = stored}))),
                levels(plain(8, 8, {78, 100, 20})), 3);
}

// Blocks, colour of lower resolution and orientation all move the borders of what has to be decoded.
TEST(Decode, APartHasThePixelsOfTheWhole) {
  const auto noise = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(128 + 60 * std::sin(0.3 * x + c) + 60 * std::cos(0.2 * y * (c + 1)));
  };
  const Image rgb = image_of(77, 123, 3, noise);
  std::vector<std::string> files{png_of(rgb), jpeg_of(image_of(50, 60, 1, noise)),
                                 jpeg_of(image_of(50, 60, 4, noise), {.stored = JCS_YCCK})};
  for (const bool progressive : {false, true})
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}})
      files.push_back(jpeg_of(rgb, {.progressive = progressive, .across = across, .down = down}));
  for (int orientation = 2; orientation <= 8; ++orientation)
    files.push_back(jpeg_of(rgb, {.orientation = orientation}));
  Decoder decoder;
  for (std::size_t f = 0; f < files.size(); ++f) {
    SCOPED_TRACE(f);
    const Image whole = decoded(files[f]);
    for (std::uint64_t round = 0; round < 60; ++round) {
      Random random(2, round);
      const auto span = [&](int size, int& begin, int& length) {
        length = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(size)));
        begin = static_cast<int>(random.below(static_cast<std::uint32_t>(size - length + 1)));
      };
      Box part;
      span(whole.height(), part.top, part.height);
      span(whole.width(), part.left, part.width);
      Image image;
      decoder.open(stored(files[f]));
      const Box found = decoder.read(part, image);
      ASSERT_EQ(found.height, part.height);
      ASSERT_EQ(found.width, part.width);
      for (int y = 0; y < part.height; ++y)
        for (int i = 0; i < part.width * whole.channels(); ++i)
          ASSERT_EQ(image.row(found.top + y)[found.left * whole.channels() + i],
                    whole.row(part.top + y)[part.left * whole.channels() + i])
              << part.top << "+" << y << ", " << part.left << ", " << i;
    }
  }
}

TEST(Decode, RowsOfBlocksStandAlone) {
  const auto noise = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(128 + 60 * std::sin(0.3 * x + c) + 60 * std::cos(0.2 * y * (c + 1)));
  };
  const Image rgb = image_of(177, 123, 3, noise);
  std::vector<std::string> files{jpeg_of(image_of(90, 60, 1, noise)), jpeg_of(image_of(1, 1, 3, noise)),
                                 jpeg_of(rgb, {.orientation = 6})};
  for (const bool progressive : {false, true})
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}})
      files.push_back(jpeg_of(rgb, {.progressive = progressive, .across = across, .down = down}));
  Decoder decoder;
  for (std::size_t f = 0; f < files.size(); ++f) {
    SCOPED_TRACE(f);
    const Image whole = decoded(files[f]);
    JpegRows rows;
    const std::string indexed = with_jpeg_rows(std::as_bytes(std::span(files[f])), rows);
    ASSERT_EQ(levels(decoded(indexed)), levels(whole));
    StoredImage image = stored(indexed);
    image.rows = rows.offsets;
    image.block_height = rows.block_height;
    for (std::uint64_t round = 0; round < 60; ++round) {
      Random random(3, round);
      Box part;
      part.height = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(whole.height())));
      part.top = static_cast<int>(random.below(static_cast<std::uint32_t>(whole.height() - part.height + 1)));
      part.width = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(whole.width())));
      part.left = static_cast<int>(random.below(static_cast<std::uint32_t>(whole.width() - part.width + 1)));
      Image got;
      decoder.open(image);
      const Box found = decoder.read(part, got);
      for (int y = 0; y < part.height; ++y)
        for (int i = 0; i < part.width * whole.channels(); ++i)
          ASSERT_EQ(got.row(found.top + y)[found.left * whole.channels() + i],
                    whole.row(part.top + y)[part.left * whole.channels() + i])
              << part.top << "+" << y << ", " << part.left << ", " << i;
    }
  }
  JpegRows none;
  const std::string inks = jpeg_of(image_of(8, 8, 4, noise), {.stored = JCS_YCCK});
  EXPECT_EQ(with_jpeg_rows(std::as_bytes(std::span(inks)), none), "");
  const std::string cut = files[2].substr(0, files[2].size() / 2);
  error_of([&] { with_jpeg_rows(std::as_bytes(std::span(cut)), none); });
}

TEST(Decode, PngOfEveryKind) {
  const auto png = [](const std::string& rows, PngOptions options) {
    return levels(decoded(png_of(1, 2, rows, options)));
  };
  using std::string_literals::operator""s;
  const std::uint8_t rgb = SPNG_COLOR_TYPE_TRUECOLOR, gray = SPNG_COLOR_TYPE_GRAYSCALE;
  const std::uint8_t rgba = SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, gray_alpha = SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  EXPECT_EQ(png("abcdef", {rgb}), (std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(png("ab", {gray}), (std::vector<int>{'a', 'b'}));
  EXPECT_EQ(png("\x40"s, {gray, 1}), (std::vector<int>{0, 255}));
  EXPECT_EQ(png("\x3F"s, {gray, 4}), (std::vector<int>{51, 255}));
  EXPECT_EQ(png("\x01\x80\xFF\x10"s, {gray, 16}), (std::vector<int>{0x80, 0x10}));
  EXPECT_EQ(png("\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06"s, {rgb, 16}), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  // Half of black over white is mid-gray; fully transparent is the background.
  EXPECT_EQ(png("\0\0\0\x80zzz\0"s, {rgba}), (std::vector<int>{127, 127, 127, 255, 255, 255}));
  EXPECT_EQ(png("\0\x80z\0"s, {gray_alpha}), (std::vector<int>{127, 255}));
  spng_plte palette{};
  palette.n_entries = 2;
  palette.entries[0] = {10, 20, 30, 255}, palette.entries[1] = {40, 50, 60, 255};
  spng_trns transparent{};
  transparent.n_type3_entries = 1;
  transparent.type3_alpha[0] = 0;
  const std::uint8_t indexed = SPNG_COLOR_TYPE_INDEXED;
  EXPECT_EQ(png("\0\x01"s, {indexed, 8, &palette}), (std::vector<int>{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(png("\0\x01"s, {indexed, 8, &palette, &transparent}),
            (std::vector<int>{255, 255, 255, 40, 50, 60}));
  const Image red = decoded(png_of(1, 1, "\0\0"s, {gray_alpha}), {.background = {255, 0, 0}});
  EXPECT_EQ(levels(red), (std::vector<int>{255, 0, 0}));
}

/// A bitmap with BITMAPINFOHEADER; `palette` holds 4 bytes a colour, `rows` the lowest first.
std::string bmp_of(int height, int width, int depth, const std::string& palette, const std::string& rows,
                   std::uint32_t compression = 0) {
  const std::string info = little(40, 4) + little(static_cast<std::uint32_t>(width), 4) +
                           little(static_cast<std::uint32_t>(height), 4) + little(1, 2) +
                           little(static_cast<std::uint32_t>(depth), 2) + little(compression, 4) +
                           std::string(12, '\0') +
                           little(compression == 3 ? 0 : palette.size() / 4, 4) + little(0, 4);
  const std::size_t data = 14 + info.size() + palette.size();
  return "BM" + little(data + rows.size(), 4) + little(0, 4) + little(data, 4) + info + palette + rows;
}

TEST(Decode, BmpOfEveryKind) {
  using std::string_literals::operator""s;
  const std::vector<int> red_blue{255, 0, 0, 0, 0, 255};
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 24, "", "\0\0\xFF\xFF\0\0\0\0"s))), red_blue);
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 32, "", "\0\0\xFF\0\xFF\0\0\0"s))), red_blue);
  const std::string palette = "\0\0\xFF\0\xFF\0\0\0"s;
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 8, palette, "\0\1\0\0"s))), red_blue);
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 4, palette, "\1\0\0\0"s))), red_blue);
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 1, palette, "\x40\0\0\0"s))), red_blue);
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 16, "", "\0\x7C\x1F\0"s))), red_blue);
  const std::string masks565 = little(0xF800, 4) + little(0x7E0, 4) + little(0x1F, 4);
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 16, masks565, "\0\xF8\x1F\0"s, 3))), red_blue);
  // The lowest row comes first, unless the height is negative.
  const std::string two = "\0\0\xFF\0\xFF\0\0\0"s;
  EXPECT_EQ(levels(decoded(bmp_of(2, 1, 24, "", two))), (std::vector<int>{0, 0, 255, 255, 0, 0}));
  EXPECT_EQ(levels(decoded(bmp_of(-2, 1, 24, "", two))), red_blue);
  // Runs: two of colour 1, then colours 0 1 0 one by one and filled up; a move up; the end.
  const Image runs = decoded(bmp_of(2, 5, 8, palette, "\2\1\0\3\0\1\0\0\0\0\0\2\3\0\2\1\0\1"s, 1));
  std::vector<int> blue;
  for (int i = 2; i < 30; i += 3) blue.push_back(levels(runs)[static_cast<std::size_t>(i)] / 255);
  EXPECT_EQ(blue, (std::vector<int>{0, 0, 0, 1, 1, 1, 1, 0, 1, 0}));
  const Image nibbles = decoded(bmp_of(1, 5, 4, palette, "\3\x10\0\1\0\1"s, 2));
  EXPECT_EQ(levels(nibbles)[2], 255);
  EXPECT_EQ(levels(nibbles)[5], 0);
  const std::string odd = little(0xFF00, 4) + little(0x30, 4) + little(0xF, 4);
  expect_words(error_of([&] { decoded(bmp_of(1, 2, 32, odd, "\0\0\0\0\0\0\0\0"s, 3)); }), {"BMP", "unusual"});
  expect_words(error_of([&] { decoded(bmp_of(1, 2, 8, palette, "\0\2\0\0"s)); }), {"outside of its palette"});
  expect_words(error_of([&] { decoded(bmp_of(60000, 60000, 24, "", "")); }), {"above the limit"});
}

TEST(Decode, PnmOfEveryKind) {
  using std::string_literals::operator""s;
  const std::vector<int> dots{0, 255, 255, 0};
  EXPECT_EQ(levels(decoded("P1\n# a comment\n2 2\n10\n0 1\n")), dots);
  EXPECT_EQ(levels(decoded("P4 2 2\n\x80\x40"s)), dots);
  EXPECT_EQ(levels(decoded("P2 2 1 # wide\n10\n5 10\n")), (std::vector<int>{128, 255}));
  EXPECT_EQ(levels(decoded("P5 2 1 255\n\x07\xFE"s)), (std::vector<int>{7, 254}));
  EXPECT_EQ(levels(decoded("P5 2 1 65535\n\x80\x80\xFF\xFF"s)), (std::vector<int>{128, 255}));
  EXPECT_EQ(levels(decoded("P3 1 1 255 1 2 3")), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(levels(decoded("P6 1 1 255\n\x01\x02\x03"s)), (std::vector<int>{1, 2, 3}));
  expect_words(error_of([] { decoded("P6 1 1 255\n\x01\x02"s); }), {"PNM", "cut off"});
  expect_words(error_of([] { decoded("P2 1 1 9\n10\n"); }), {"above the largest"});
  expect_words(error_of([] { decoded("P5 60000 60000 255\n"); }), {"above the limit"});
}

TEST(Decode, Gif) {
  using std::string_literals::operator""s;
  EXPECT_EQ(levels(decoded(gif_of(1, 3, "\1\2\3"s))), (std::vector<int>{255, 0, 0, 0, 255, 0, 0, 0, 255}));
  EXPECT_EQ(levels(decoded(gif_of(1, 2, "\1\2"s, false, 2), {.background = {9, 8, 7}})),
            (std::vector<int>{255, 0, 0, 9, 8, 7}));
  // Lines 0, 8, 4, 2, 6, 1, 3, 5, 7 come in this order.
  const Image lines = decoded(gif_of(9, 1, "\0\1\2\3\1\2\3\1\2"s, true));
  std::vector<int> red;
  for (int y = 0; y < 9; ++y) red.push_back(lines.row(y)[0]);
  EXPECT_EQ(red, (std::vector<int>{0, 0, 0, 0, 0, 255, 255, 0, 255}));
  expect_words(error_of([&] { decoded(gif_of(2, 2, "\1\2\3"s)); }), {"GIF", "too early"});
  EXPECT_EQ(decoded(gif_of(60, 50, std::string(3000, '\1'))).size(), (ImageSize{60, 50, 3}));
}

TEST(Decode, WebP) {
  const Image rgb = image_of(7, 5, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(30 * y + 9 * x + c); });
  const auto encoded = [&](auto encode, const Image& image, int channels) {
    std::uint8_t* bytes = nullptr;
    const std::size_t size = encode(image.data(), image.width(), image.height(), image.width() * channels, &bytes);
    const std::string file(reinterpret_cast<char*>(bytes), size);
    WebPFree(bytes);
    return file;
  };
  const std::string file = encoded(WebPEncodeLosslessRGB, rgb, 3);
  EXPECT_EQ(levels(decoded(file)), levels(rgb));
  const Image half = image_of(1, 1, 4, [](int, int, int c) { return static_cast<std::uint8_t>(c == 3 ? 51 : 100); });
  EXPECT_EQ(levels(decoded(encoded(WebPEncodeLosslessRGBA, half, 4), {.background = {200, 0, 50}})),
            (std::vector<int>{180, 20, 60}));
  expect_words(error_of([&] { decoded(file.substr(0, file.size() - 3)); }), {"WebP", "cut off"});

  // The extended container (WebP Container Specification, "VP8X"): flags, size less one, then chunks.
  using std::string_literals::operator""s;
  std::string exif = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"s;
  const std::string chunks = "VP8X" + little(10, 4) + little(8, 4) + little(4, 3) + little(6, 3) + file.substr(12) +
                             "EXIF" + little(exif.size(), 4) + exif;
  const std::string extended = "RIFF" + little(4 + chunks.size(), 4) + "WEBP" + chunks;
  Decoder decoder;
  const ImageHeader header = decoder.open(stored(extended));
  EXPECT_EQ(header.orientation, 6);
  EXPECT_EQ(header.height, 5);
  EXPECT_EQ(header.width, 7);
}

/// An uncompressed TIFF of one strip.
std::string tiff_of(int height, int width, int samples, int bits, const std::string& rows, int orientation = 1) {
  const int photometric = samples == 1 ? 1 : 2;
  std::string depths;
  for (int i = 0; i < samples; ++i) depths += little(static_cast<std::uint32_t>(bits), 2);
  const std::size_t depths_at = 8 + rows.size();
  const std::vector<std::array<std::uint64_t, 4>> entries{
      {256, 4, 1, static_cast<std::uint64_t>(width)}, {257, 4, 1, static_cast<std::uint64_t>(height)},
      {258, 3, static_cast<std::uint64_t>(samples), samples == 1 ? static_cast<std::uint64_t>(bits) : depths_at},
      {259, 3, 1, 1}, {262, 3, 1, static_cast<std::uint64_t>(photometric)}, {273, 4, 1, 8},
      {274, 3, 1, static_cast<std::uint64_t>(orientation)}, {277, 3, 1, static_cast<std::uint64_t>(samples)},
      {278, 4, 1, static_cast<std::uint64_t>(height)}, {279, 4, 1, rows.size()}};
  std::string file = "II*" + little(0, 1) + little(depths_at + depths.size(), 4) + rows + depths;
  file += little(entries.size(), 2);
  for (const auto& [tag, type, count, value] : entries)
    file += little(tag, 2) + little(type, 2) + little(count, 4) + little(value, 4);
  return file + little(0, 4);
}

TEST(Decode, Tiff) {
  using std::string_literals::operator""s;
  EXPECT_EQ(levels(decoded(tiff_of(1, 3, 1, 8, "\x01\x80\xFF"s))), (std::vector<int>{1, 128, 255}));
  EXPECT_EQ(levels(decoded(tiff_of(1, 2, 3, 8, "\1\2\3\4\5\6"s))), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(levels(decoded(tiff_of(1, 2, 1, 16, "\0\x80\xFF\xFF"s))), (std::vector<int>{128, 255}));
  EXPECT_EQ(levels(decoded(tiff_of(2, 1, 1, 8, "\1\2"s, 8))), (std::vector<int>{1, 2}));
  EXPECT_EQ(decoded(tiff_of(2, 1, 1, 8, "\1\2"s, 8)).size(), (ImageSize{1, 2, 1}));
  expect_words(error_of([] { decoded(tiff_of(1, 1, 1, 32, "\0\0\0\0"s)); }), {"TIFF", "32 bits", "convert"});
  expect_words(error_of([] { decoded(tiff_of(60000, 60000, 1, 8, "\0"s)); }), {"above the limit"});
  error_of([] { decoded(tiff_of(9, 9, 1, 8, "\0\0"s)); });  // a strip that is too short
}

TEST(Decode, AllEightOrientations) {
  // A picture of 16 x 8 whose quarters differ; the corners of the upright picture say how it was turned.
  const Image stored = image_of(16, 32, 1, [](int y, int x, int) {
    return static_cast<std::uint8_t>(y < 8 ? (x < 16 ? 0 : 80) : (x < 16 ? 160 : 240));
  });
  const std::vector<int> corners[] = {{0, 80, 160, 240}, {80, 0, 240, 160}, {240, 160, 80, 0},
                                      {160, 240, 0, 80}, {0, 160, 80, 240}, {160, 0, 240, 80},
                                      {240, 80, 160, 0}, {80, 240, 0, 160}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string bytes = jpeg_of(stored, {.orientation = orientation});
    const Image upright = decoded(bytes);
    const int h = upright.height() - 1, w = upright.width() - 1;
    EXPECT_EQ(upright.size(), orientation < 5 ? (ImageSize{16, 32, 1}) : (ImageSize{32, 16, 1}));
    const std::vector<int> found{upright.row(0)[0], upright.row(0)[w], upright.row(h)[0], upright.row(h)[w]};
    SCOPED_TRACE(orientation);
    expect_near(found, corners[orientation - 1], 2);
    EXPECT_EQ(decoded(bytes, {.exif = false}).size(), (ImageSize{16, 32, 1}));
  }
}

TEST(Decode, DamagedExifMeansUpright) {
  std::string block("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0", 22);
  const auto orientation = [](std::string_view bytes) {
    return exif_orientation({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(orientation(block), 6);
  for (std::size_t size = 0; size < 20; ++size) EXPECT_EQ(orientation(block.substr(0, size)), 1) << size;
  block[19] = 9;  // no such orientation
  EXPECT_EQ(orientation(block), 1);
  block.replace(4, 4, "\xFF\xFF\xFF\xFF");  // a directory far outside
  EXPECT_EQ(orientation(block), 1);
}

TEST(Decode, ErrorsSayCauseAndFix) {
  const std::string jpeg = jpeg_of(image_of(
      64, 64, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1)); }));
  const std::string png = png_of(plain(64, 64, {1, 2, 3}));
  for (const std::string* whole : {&jpeg, &png})
    for (const std::size_t size : {std::size_t{9}, whole->size() / 2, whole->size() - 20})
      expect_words(error_of([&] { decoded(whole->substr(0, size)); }), {"cannot decode"});
  expect_words(error_of([] { decoded(""); }), {"empty"});
  expect_words(error_of([] { decoded("hello, world"); }), {"not a picture"});
  expect_words(error_of([] { decoded("GIF89a…"); }), {"cannot decode this GIF"});
  expect_words(error_of([] { decoded(std::string("\0\0\0 ftypavif", 12)); }), {"AVIF", "convert"});
  // 60,000 x 60,000 is refused by its header.
  std::string large = png_of(1, 1, "x", {SPNG_COLOR_TYPE_GRAYSCALE});
  large.replace(16, 8, big_endian(60000) + big_endian(60000));
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(large.data()) + 12, 17);
  large.replace(29, 4, big_endian(static_cast<std::uint32_t>(crc)));
  expect_words(error_of([&] { decoded(large); }), {"60000 x 60000", "limit of 100 million"});
  expect_words(error_of([] { Decoder().open_file("no/such.jpg"); }), {"cannot read"});
}

TEST(Decode, NoDamageCrashes) {
  const Image image =
      image_of(40, 40, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * x * (c + 1)); });
  for (const std::string& whole :
       {jpeg_of(image, {.orientation = 6}), jpeg_of(image, {.progressive = true}), png_of(image),
        bmp_of(40, 40, 24, "", std::string(4800, 'x')), gif_of(20, 20, std::string(400, '\1'), true, 2),
        tiff_of(40, 40, 3, 8, std::string(4800, 'x'), 5), "P5 40 40 255\n" + std::string(1600, 'x'),
        bmp_of(4, 4, 8, std::string(16, 'p'), std::string("\4\1\0\0\4\2\0\0\0\4\1\2\1\2\0\1", 16), 1)})
    for (std::uint64_t round = 0; round < 120; ++round) {
      Random random(1, round);
      std::string bytes = whole;
      for (int i = 0; i < 4; ++i)
        bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<char>(random.bits());
      try {
        decoded(bytes);
      } catch (const Error& e) {
        EXPECT_EQ(e.fault(), Fault::data);
      }
    }
}

TEST(Decode, OddImages) {
  NEED_DATA(archive, "images-odd.tar");
  const TempFolder temp;
  ASSERT_EQ(std::system(text("tar xf '", archive, "' -C '", temp.path(), "'").c_str()), 0);
  std::string root;
  for (const auto& entry : fs::recursive_directory_iterator(temp.path()))
    if (entry.path().filename() == "MANIFEST.tsv") root = entry.path().parent_path().string();
  std::istringstream manifest(read_file(root + "/MANIFEST.tsv"));
  std::string line;
  std::getline(manifest, line);
  int files = 0, read = 0;
  while (std::getline(manifest, line)) {
    const std::vector<std::string> row = split(line, '\t');
    const std::string path = root + "/" + row[0], &expect = row[1], &mode = row[3];
    SCOPED_TRACE(line);
    ++files;
    Decoder decoder;
    Image image;
    try {
      decoder.open_file(path);
      decoder.read(image);
      ++read;
      if (expect == "either") continue;
      EXPECT_EQ(expect, "decode");
      EXPECT_EQ(text(image.width(), "x", image.height()), text(row[8], "x", row[9]));
      // The manifest's mean drops alpha, so it holds for pictures that have none.
      if (row[10] == "-" || (mode != "RGB" && mode != "L" && mode != "CMYK") ||
          row[0].find("transparency") != std::string::npos)
        continue;
      const std::vector<std::string> means = split(row[10], ',');
      const double pixels = static_cast<double>(image.height()) * image.width();
      for (int c = 0; c < image.channels(); ++c) {
        double sum = 0;
        for (std::size_t i = static_cast<std::size_t>(c); i < image.size().bytes();
             i += static_cast<std::size_t>(image.channels()))
          sum += image.data()[i];
        EXPECT_NEAR(sum / pixels, std::stod(means[static_cast<std::size_t>(c)]), 0.75) << "channel " << c;
      }
    } catch (const Error& e) {
      EXPECT_NE(expect, "decode") << e.what();
    }
  }
  EXPECT_GT(files, 100);
  EXPECT_GT(read, 90);
}

}  // namespace
}  // namespace neurim
