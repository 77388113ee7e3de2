// Decoding, on images made here and, where NEURIM_DATA is set, on odd and broken ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "neurim/core/random.h"
#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/jpeg_rows.h"
#include "tests/image_bytes.h"

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

// What a part leaves out is looked at too: the same files are refused as by decoding the whole image.
TEST(Decode, TheRestOfAPartIsChecked) {
  const Image noise = image_of(
      120, 90, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1)); });
  std::vector<std::string> files{
      png_of(noise),
      jpeg_of(image_of(70, 60, 1, [](int y, int x, int) { return static_cast<std::uint8_t>(y * 31 + x * 17); })),
      jpeg_of(
          image_of(70, 60, 4, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1)); }),
          {.stored = JCS_YCCK}),
      jpeg_of(noise, {.orientation = 6}), jpeg_of(noise, {.arithmetic = true})};
  for (const bool progressive : {false, true})
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}})
      files.push_back(jpeg_of(noise, {.progressive = progressive, .across = across, .down = down}));
  const std::size_t sound = files.size();
  for (std::size_t f = 0; f < sound; ++f)
    for (const std::size_t percent : {60, 80, 90, 97}) {
      std::string damaged = files[f];
      for (std::size_t i = 0; i < 12; ++i)
        damaged[damaged.size() * percent / 100 + i] = static_cast<char>(255 - 40 * i);
      files.push_back(damaged);
    }
  Decoder decoder;
  Image image;
  const auto refused = [](const auto& step) {
    try {
      step();
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      return true;
    }
  };
  std::size_t late = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    SCOPED_TRACE(f);
    const bool damaged = refused([&] { decoded(files[f]); });
    EXPECT_TRUE(f >= sound || !damaged);
    for (std::uint64_t round = 0; round < 20; ++round) {
      Random random(5, round);
      const auto below = [&](int size) { return static_cast<int>(random.below(static_cast<std::uint32_t>(size))); };
      bool in_part = true;
      const bool found = refused([&] {
        const ImageHeader& header = decoder.open(stored(files[f]), {.scaled = round % 2 == 1});
        Box part{.height = 1 + below(header.height), .width = 1 + below(header.width)};
        part.top = below(header.height - part.height + 1);
        part.left = below(header.width - part.width + 1);
        decoder.read(part, image, decoder.reduction(part, 5, 5));
        in_part = false;
        decoder.check_rest();
      });
      EXPECT_EQ(found, damaged) << round;
      late += found && !in_part;
    }
  }
  EXPECT_GT(late, 100u);
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

/// JPEGs of all kinds that make a difference to how one is decoded smaller, of a size that no block divides; colour,
/// which has a lower resolution, changes slowly.
std::vector<std::string> jpegs_to_reduce() {
  const auto waves = [](int y, int x, int c) {
    return static_cast<std::uint8_t>(128 + 50 * std::sin(0.2 * x) + 40 * std::cos(0.17 * y) +
                                     20 * std::sin(0.015 * (x + 2 * y) + c));
  };
  const Image rgb = image_of(177, 123, 3, waves);
  std::vector<std::string> files{jpeg_of(image_of(177, 123, 1, waves)),
                                 jpeg_of(image_of(177, 123, 4, waves), {.stored = JCS_YCCK})};
  for (const bool progressive : {false, true})
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}})
      files.push_back(jpeg_of(rgb, {.progressive = progressive, .across = across, .down = down}));
  for (int orientation = 2; orientation <= 8; ++orientation)
    files.push_back(jpeg_of(rgb, {.orientation = orientation}));
  return files;
}

TEST(Decode, AReducedImageHasTheMeansOfTheFullOne) {
  Decoder decoder;
  const std::vector<std::string> files = jpegs_to_reduce();
  for (std::size_t f = 0; f < files.size(); ++f) {
    SCOPED_TRACE(f);
    const std::string& file = files[f];
    const Image full = decoded(file);
    for (const int reduction : {2, 4, 8}) {
      Image image;
      decoder.open(stored(file), {.scaled = true});
      const Box found = decoder.read(full.box(), image, reduction);
      const Box pixels = reduced(found, reduction);
      EXPECT_EQ(pixels, image.box());
      ASSERT_EQ(found.height, full.height());
      ASSERT_EQ(found.width, full.width());
      ASSERT_EQ(image.channels(), full.channels());
      double off = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) {
          const int top = y * reduction - found.top, left = x * reduction - found.left;
          if (top < 0 || left < 0 || top + reduction > full.height() || left + reduction > full.width()) continue;
          for (int c = 0; c < full.channels(); ++c) {
            double sum = 0;
            for (int i = 0; i < reduction * reduction; ++i)
              sum += full.row(top + i / reduction)[(left + i % reduction) * full.channels() + c];
            const double mean = sum / reduction / reduction;
            ASSERT_NEAR(image.row(y)[x * full.channels() + c], mean, 12)
                << "1/" << reduction << " at " << y << ", " << x;
            off += std::abs(image.row(y)[x * full.channels() + c] - mean);
          }
        }
      EXPECT_LE(off / static_cast<double>(image.size().values()), 2) << "1/" << reduction;
    }
  }
}

// Also where the rows of blocks have an index.
TEST(Decode, AReducedPartHasThePixelsOfTheReducedWhole) {
  Decoder decoder;
  const std::vector<std::string> files = jpegs_to_reduce();
  for (std::size_t f = 0; f < files.size(); ++f) {
    SCOPED_TRACE(f);
    const std::string& file = files[f];
    JpegRows rows;
    const std::string indexed = with_jpeg_rows(std::as_bytes(std::span(file)), rows);
    StoredImage with_rows = stored(indexed);
    with_rows.rows = rows.offsets;
    with_rows.block_height = rows.block_height;
    for (const int reduction : {2, 4, 8}) {
      Image whole, image;
      const ImageHeader header = decoder.open(stored(file), {.scaled = true});
      const Box all = decoder.read({0, 0, header.height, header.width}, whole, reduction);
      for (std::uint64_t round = 0; round < 40; ++round) {
        Random random(6, round);
        const auto below = [&](int size) { return static_cast<int>(random.below(static_cast<std::uint32_t>(size))); };
        Box part{.height = 1 + below(header.height), .width = 1 + below(header.width)};
        part.top = below(header.height - part.height + 1);
        part.left = below(header.width - part.width + 1);
        decoder.open(round % 2 == 0 || indexed.empty() ? stored(file) : with_rows, {.scaled = true});
        const Box found = decoder.read(part, image, reduction), pixels = reduced(found, reduction);
        const int down = part.top + all.top - found.top, right = part.left + all.left - found.left;
        ASSERT_EQ(down % reduction, 0);
        ASSERT_EQ(right % reduction, 0);
        const int channels = image.channels();
        for (int y = pixels.top; y < pixels.top + pixels.height; ++y)
          for (int i = pixels.left * channels; i < (pixels.left + pixels.width) * channels; ++i)
            ASSERT_EQ(image.row(y)[i], whole.row(y + down / reduction)[i + right / reduction * channels])
                << "1/" << reduction << ", " << part.top << "+" << y << ", " << part.left << ", " << i;
      }
    }
  }
}

TEST(Decode, AReductionIsTheMostThatEnlargesNothing) {
  const Image image = plain(200, 300, {1, 2, 3});
  const std::string jpeg = jpeg_of(image), turned = jpeg_of(image, {.orientation = 6}), png = png_of(image);
  Decoder decoder;
  decoder.open(stored(jpeg), {.scaled = true});
  const auto of = [&](const Box& part, int height, int width) { return decoder.reduction(part, height, width); };
  const Box whole{0, 0, 200, 300}, part{3, 5, 64, 161};
  struct {
    Box part;
    int height, width, reduction;
  } const cases[] = {{whole, 200, 300, 1}, {whole, 400, 600, 1}, {whole, 101, 10, 1}, {whole, 10, 151, 1},
                     {whole, 100, 150, 2}, {whole, 51, 50, 2},   {whole, 50, 75, 4},  {whole, 25, 37, 8},
                     {whole, 1, 1, 8},     {part, 33, 10, 1},    {part, 32, 80, 2},   {part, 16, 41, 2},
                     {part, 16, 40, 4}};
  for (const auto& [of_part, height, width, reduction] : cases)
    EXPECT_EQ(of(of_part, height, width), reduction)
        << of_part.height << " x " << of_part.width << " to " << height << " x " << width;
  decoder.open(stored(turned), {.scaled = true});
  EXPECT_EQ(of({0, 0, 300, 200}, 75, 50), 4);
  for (const std::string& bytes : {jpeg, png}) {
    decoder.open(stored(bytes), {.scaled = bytes == png});
    EXPECT_EQ(of(whole, 1, 1), 1);
  }
  decoder.open({std::as_bytes(std::span(image.data(), image.size().bytes())), image.size()}, {.scaled = true});
  EXPECT_EQ(of(whole, 1, 1), 1);
}

TEST(Decode, PngOfEveryKind) {
  const auto png = [](const std::string& rows, PngOptions options) {
    return levels(decoded(png_of(1, 2, rows, options)));
  };
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
  EXPECT_EQ(png("\0\x01"s, {indexed, 8, &palette, &transparent}), (std::vector<int>{255, 255, 255, 40, 50, 60}));
  const Image red = decoded(png_of(1, 1, "\0\0"s, {gray_alpha}), {.background = {255, 0, 0}});
  EXPECT_EQ(levels(red), (std::vector<int>{255, 0, 0}));
}

TEST(Decode, BmpOfEveryKind) {
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
  for (int i = 2; i < 30; i += 3) blue.push_back(levels(runs)[i] / 255);
  EXPECT_EQ(blue, (std::vector<int>{0, 0, 0, 1, 1, 1, 1, 0, 1, 0}));
  const Image nibbles = decoded(bmp_of(1, 5, 4, palette, "\3\x10\0\1\0\1"s, 2));
  EXPECT_EQ(levels(nibbles)[2], 255);
  EXPECT_EQ(levels(nibbles)[5], 0);
  EXPECT_EQ(levels(decoded(bmp_of(1, 2, 8, palette, "\1\0\1\1"s, 1))), red_blue);  // a last line without an end
  expect_words(error_of([&] { decoded(bmp_of(1, 2, 8, masks565, "\0\1\0\0"s, 3)); }), {"contradict"});
  const std::string inside = bmp_of(1, 1, 24, "", "\0\0\0\0"s).replace(10, 4, little(20, 4));
  expect_words(error_of([&] { decoded(inside); }), {"BMP", "in its header"});
  const std::string odd = little(0xFF00, 4) + little(0x30, 4) + little(0xF, 4);
  expect_words(error_of([&] { decoded(bmp_of(1, 2, 32, odd, "\0\0\0\0\0\0\0\0"s, 3)); }), {"BMP", "unusual"});
  expect_words(error_of([&] { decoded(bmp_of(1, 2, 8, palette, "\0\2\0\0"s)); }), {"outside of its palette"});
  expect_words(error_of([&] { decoded(bmp_of(60000, 60000, 24, "", "")); }), {"above the limit"});
}

TEST(Decode, PnmOfEveryKind) {
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
  expect_words(error_of([] { decoded("P5 1 1 255#\1"); }), {"no blank"});
  expect_words(error_of([] { decoded("P1\xC3\xA4 is a text"); }), {"not an image"});
  expect_words(error_of([] { decoded("P5 60000 60000 255\n"); }), {"above the limit"});
}

TEST(Decode, Gif) {
  const auto gif = [](int height, int width, const std::string& indices, bool interlaced = false,
                      int transparent = -1) {
    return gif_of(height, width, gif_frame(height, width, indices, interlaced, transparent));
  };
  const std::vector<int> colors{255, 0, 0, 0, 255, 0, 0, 0, 255};
  EXPECT_EQ(levels(decoded(gif(1, 3, "\1\2\3"s))), colors);
  EXPECT_EQ(levels(decoded(gif(1, 2, "\1\2"s, false, 2), {.background = {9, 8, 7}})),
            (std::vector<int>{255, 0, 0, 9, 8, 7}));
  // Lines 0, 8, 4, 2, 6, 1, 3, 5, 7 come in this order.
  const Image lines = decoded(gif(9, 1, "\0\1\2\3\1\2\3\1\2"s, true));
  std::vector<int> red;
  for (int y = 0; y < 9; ++y) red.push_back(lines.row(y)[0]);
  EXPECT_EQ(red, (std::vector<int>{0, 0, 0, 0, 0, 255, 255, 0, 255}));
  expect_words(error_of([&] { decoded(gif(2, 2, "\1\2\3"s)); }), {"GIF", "too early"});
  EXPECT_EQ(decoded(gif(60, 50, std::string(3000, '\1'))).size(), (ImageSize{60, 50, 3}));
  // Of an animation the first frame counts, and damage after it does not; a frame may be smaller than the
  // canvas and larger.
  EXPECT_EQ(levels(decoded(gif_of(1, 3, gif_frame(1, 3, "\1\2\3"s) + gif_frame(1, 3, "\0\0\0"s).substr(0, 20)))),
            colors);
  EXPECT_EQ(levels(decoded(gif_of(1, 2, gif_frame(1, 1, "\1"s)), {.background = {9, 8, 7}})),
            (std::vector<int>{255, 0, 0, 9, 8, 7}));
  EXPECT_EQ(levels(decoded(gif_of(1, 1, gif_frame(1, 3, "\1\2\3"s)))), colors);
}

TEST(Decode, WebP) {
  const Image rgb = image_of(7, 5, 3,
                             [](int y, int x, int c) { return static_cast<std::uint8_t>(30 * y + 9 * x + c); });
  const std::string file = webp_of(rgb);
  EXPECT_EQ(levels(decoded(file)), levels(rgb));
  const Image half = image_of(1, 1, 4, [](int, int, int c) { return static_cast<std::uint8_t>(c == 3 ? 51 : 100); });
  EXPECT_EQ(levels(decoded(webp_of(half), {.background = {200, 0, 50}})), (std::vector<int>{180, 20, 60}));
  expect_words(error_of([&] { decoded(file.substr(0, file.size() - 3)); }), {"WebP", "cut off"});
  // Of an animation the first frame shows, on its canvas.
  const Image red = plain(2, 2, {255, 0, 0}), blue = plain(4, 4, {0, 0, 255});
  const std::string animation = webp_animation(4, 4,
                                               webp_frame(webp_of(red), red, 2, 0) + webp_frame(webp_of(blue), blue));
  const Image first = decoded(animation, {.background = {9, 8, 7}});
  EXPECT_EQ(first.size(), (ImageSize{4, 4, 3}));
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x)
      EXPECT_EQ((std::vector<int>{first.row(y) + 3 * x, first.row(y) + 3 * x + 3}),
                y >= 2 && x < 2 ? (std::vector<int>{255, 0, 0}) : (std::vector<int>{9, 8, 7}));
  expect_words(error_of([&] { decoded(animation.substr(0, 70)); }), {"WebP", "first frame"});
}

TEST(Decode, TiffOfEveryKind) {
  enum Photometric { kWhiteIsZero = 0, kRgb = 2, kPalette = 3, kInks = 5 };
  enum Extra { kUnspecified = 0, kMultiplied = 1, kUnrolled = 2 };
  const auto tiff = [](int width, int samples, int bits, const std::string& rows, const TiffOptions& options = {}) {
    return levels(decoded(tiff_of(1, width, samples, bits, rows, options), {.background = {200, 200, 0}}));
  };
  EXPECT_EQ(tiff(3, 1, 8, "\x01\x80\xFF"s), (std::vector<int>{1, 128, 255}));
  EXPECT_EQ(tiff(3, 1, 8, "\x01\x80\xFF"s, {.photometric = kWhiteIsZero}), (std::vector<int>{254, 127, 0}));
  EXPECT_EQ(tiff(3, 1, 1, "\x40"s), (std::vector<int>{0, 255, 0}));
  EXPECT_EQ(tiff(3, 1, 2, "\x1B"s), (std::vector<int>{0, 85, 170}));
  EXPECT_EQ(tiff(3, 1, 4, "\x0F\x30"s), (std::vector<int>{0, 255, 51}));
  EXPECT_EQ(tiff(2, 1, 16, "\0\x80\xFF\xFF"s), (std::vector<int>{128, 255}));
  EXPECT_EQ(tiff(2, 3, 8, "\1\2\3\4\5\6"s), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tiff(1, 3, 16, "\x01\x01\x80\x80\xFF\xFF"s), (std::vector<int>{1, 128, 255}));
  EXPECT_EQ(tiff(1, 4, 8, "\xFF\x37\0\x64"s, {.photometric = kInks}), (std::vector<int>{0, 121, 155}));
  const std::string map = "\0\0\0\x10"s + "\0\0\0\x20"s + "\0\0\0\xFF"s;  // 2 reds, 2 greens, 2 blues
  EXPECT_EQ(tiff(2, 1, 1, "\x40"s, {.photometric = kPalette, .color_map = map}),
            (std::vector<int>{0, 0, 0, 16, 32, 255}));
  // A palette past the end of the file.
  const std::string indexed = tiff_of(1, 2, 1, 8, "\0\1"s,
                                      {.photometric = kPalette, .color_map = std::string(1536, 'x')});
  std::string lost = indexed;
  lost.replace(lost.find(little(320, 2) + little(3, 2)) + 8, 4, little(1 << 20, 4));
  EXPECT_EQ(levels(decoded(indexed)), std::vector<int>(6, 'x'));
  expect_words(error_of([&] { decoded(lost); }), {"TIFF", "cut off"});
  // Alpha of 51 is a fifth; colours may be multiplied by it already.
  EXPECT_EQ(tiff(1, 4, 8, "\x64\x64\x64\x33"s, {.extra = {kUnrolled}}), (std::vector<int>{180, 180, 20}));
  EXPECT_EQ(tiff(1, 4, 8, "\x14\x14\x14\x33"s, {.extra = {kMultiplied}}), (std::vector<int>{180, 180, 20}));
  EXPECT_EQ(tiff(1, 4, 8, "\x64\x65\x66\x33"s, {.extra = {kUnspecified}}), (std::vector<int>{100, 101, 102}));
  EXPECT_EQ(tiff(1, 2, 8, "\x64\x33"s, {.extra = {kUnrolled}}), (std::vector<int>{180, 180, 20}));
  EXPECT_EQ(tiff(1, 2, 8, "\x14\x33"s, {.extra = {kMultiplied}}), (std::vector<int>{180, 180, 20}));
  EXPECT_EQ(tiff(1, 2, 8, "\x64\x33"s, {.extra = {kUnspecified}}), (std::vector<int>{100}));
  const auto refused = [&](int samples, int bits, const TiffOptions& options, const std::string& word) {
    expect_words(error_of([&] { tiff(1, samples, bits, std::string(64, 'x'), options); }), {"TIFF", word, "convert"});
  };
  refused(1, 32, {}, "32 bits");
  refused(1, 32, {.sample_format = 3}, "floating-point");
  refused(1, 8, {.sample_format = 2}, "signed");
  // More samples than gray or colour with alpha have are all given; fewer where they are asked for.
  EXPECT_EQ(tiff(2, 5, 8, "abcdefghij", {.extra = {kUnrolled, kUnspecified}}),
            (std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'}));
  EXPECT_EQ(tiff(1, 3, 8, "abc", {.photometric = 1}), (std::vector<int>{'a', 'b', 'c'}));
  EXPECT_EQ(tiff(1, 6, 16, "\x01\x01\x80\x80\xFF\xFF\x02\x02\x03\x03\x04\x04"s),
            (std::vector<int>{1, 128, 255, 2, 3, 4}));
  const auto all = [&](int samples, const std::string& rows, const TiffOptions& options) {
    return levels(decoded(tiff_of(1, 1, samples, 8, rows, options), {.all_channels = true}));
  };
  EXPECT_EQ(all(4, "\x64\x65\x66\x33"s, {.extra = {kUnspecified}}), (std::vector<int>{100, 101, 102, 51}));
  EXPECT_EQ(all(4, "\x14\x15\x33\x33"s, {.extra = {kMultiplied}}), (std::vector<int>{100, 105, 255, 51}));
  EXPECT_EQ(all(2, "\x64\x33"s, {.extra = {kUnrolled}}), (std::vector<int>{100, 51}));
  refused(513, 8, {}, "513 levels");
  refused(2, 16, {.extra = {kUnrolled}}, "alpha");
  refused(5, 8, {.photometric = kInks}, "5 inks");
  expect_words(error_of([] { decoded(tiff_of(9, 9, 1, 8, "\0\0"s)); }),
               {"TIFF", "damaged"});  // a strip that is too short
}

TEST(Decode, AlphaIsAChannelWhereItIsAskedFor) {
  const DecodeOptions all{.all_channels = true};
  const Image half = plain(1, 1, {200, 100, 0, 51});
  EXPECT_EQ(levels(decoded(webp_of(half), all)), (std::vector<int>{200, 100, 0, 51}));
  EXPECT_EQ(levels(decoded(png_of(1, 1, "\xC8\x64\0\x33"s, {SPNG_COLOR_TYPE_TRUECOLOR_ALPHA}), all)),
            (std::vector<int>{200, 100, 0, 51}));
  EXPECT_EQ(levels(decoded(png_of(1, 1, "\x64\x33"s, {SPNG_COLOR_TYPE_GRAYSCALE_ALPHA}), all)),
            (std::vector<int>{100, 51}));
  EXPECT_EQ(levels(decoded(gif_of(1, 2, gif_frame(1, 2, "\1\2"s, false, 2)), all)),
            (std::vector<int>{255, 0, 0, 255, 0, 0, 0, 0}));
  const std::string masks = little(0xFF0000, 4) + little(0xFF00, 4) + little(0xFF, 4) + little(0xFF000000, 4);
  EXPECT_EQ(levels(decoded(bmp_of(1, 1, 32, masks, "\0\x64\xC8\x33"s, 6), all)), (std::vector<int>{200, 100, 0, 51}));
  // What has no alpha gets none.
  EXPECT_EQ(levels(decoded(png_of(plain(1, 1, {1, 2, 3})), all)), (std::vector<int>{1, 2, 3}));
}

TEST(Decode, SixteenBitsAreKeptWhereTheyAreAskedFor) {
  const DecodeOptions wide{.background = {200, 200, 0}, .bits = 16};
  DecodeOptions all = wide;
  all.all_channels = true;
  const auto levels16 = [](const Image& image) {
    EXPECT_EQ(image.size().bits, 16);
    return std::vector<int>(image.values<std::uint16_t>(), image.values<std::uint16_t>() + image.size().values());
  };
  using Levels = std::vector<int>;
  const auto png = [](const std::string& rows, std::uint8_t type) { return png_of(1, 1, rows, {type, 16}); };
  const std::uint8_t gray = SPNG_COLOR_TYPE_GRAYSCALE, rgb = SPNG_COLOR_TYPE_TRUECOLOR,
                     rgba = SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  EXPECT_EQ(levels16(decoded(png("\x02\x01"s, gray), wide)), (Levels{0x0102}));
  EXPECT_EQ(levels16(decoded(png("\x02\x01\x04\x03\x06\x05"s, rgb), wide)), (Levels{0x0102, 0x0304, 0x0506}));
  EXPECT_EQ(levels16(decoded(png("\x02\x01\x04\x03\x06\x05\xFF\xFF"s, rgba), all)),
            (Levels{0x0102, 0x0304, 0x0506, 65535}));
  EXPECT_EQ(levels16(decoded(png("\x02\x01\x04\x03\x06\x05\0\0"s, rgba), wide)), (Levels{51400, 51400, 0}));
  EXPECT_EQ(levels16(decoded("P5 2 1 65535\n\x80\x81\xFF\xFF"s, wide)), (Levels{0x8081, 65535}));
  EXPECT_EQ(levels16(decoded("P5 2 1 1023\n\x03\xFF\x02\x00"s, wide)), (Levels{65535, 32800}));
  const auto tiff = [](int samples, const std::string& rows, const TiffOptions& options = {}) {
    return tiff_of(1, 1, samples, 16, rows, options);
  };
  EXPECT_EQ(levels16(decoded(tiff(1, "\x02\x01"s), wide)), (Levels{0x0102}));
  EXPECT_EQ(levels16(decoded(tiff(1, "\x02\x01"s, {.photometric = 0}), wide)), (Levels{65535 - 0x0102}));
  EXPECT_EQ(levels16(decoded(tiff(3, "\x02\x01\x04\x03\x06\x05"s), wide)), (Levels{0x0102, 0x0304, 0x0506}));
  EXPECT_EQ(levels16(decoded(tiff(4, "\x02\x01\x04\x03\x06\x05\0\0"s, {.extra = {2}}), wide)),
            (Levels{51400, 51400, 0}));
  EXPECT_EQ(levels16(decoded(tiff(4, "\x02\x01\x04\x03\x06\x05\0\0"s, {.extra = {0}}), wide)),
            (Levels{0x0102, 0x0304, 0x0506}));
  EXPECT_EQ(levels16(decoded(tiff(4, "\x02\x01\x04\x03\x06\x05\0\0"s, {.extra = {2}}), all)),
            (Levels{0x0102, 0x0304, 0x0506, 0}));
  EXPECT_EQ(levels16(decoded(tiff(2, "\x02\x01\xFF\xFF"s, {.extra = {2}}), all)), (Levels{0x0102, 65535}));
  // Turned, they are still whole levels; what has 8 bits stays as it is.
  EXPECT_EQ(decoded(jpeg_of(plain(4, 4, {77})), wide).size().bits, 8);
  Image upright, stored;
  stored.reshape({1, 2, 1, 16});
  stored.values<std::uint16_t>()[0] = 0x0102, stored.values<std::uint16_t>()[1] = 0x0304;
  turn_upright(stored, 3, upright);
  EXPECT_EQ(levels16(upright), (Levels{0x0304, 0x0102}));
}

std::string npy_of(const std::string& type, const std::string& shape, const std::string& levels) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
  return "\x93NUMPY\x01\0"s + little(header.size(), 2) + header + levels;
}

TEST(Decode, Npy) {
  const Image many = decoded(npy_of("|u1", "(1, 2, 5)", "abcdefghij"));
  EXPECT_EQ(many.size(), (ImageSize{1, 2, 5}));
  EXPECT_EQ(levels(many)[7], 'h');
  EXPECT_EQ(decoded(npy_of("|u1", "(2, 3)", "abcdef")).size(), (ImageSize{2, 3, 1}));
  EXPECT_EQ(levels(decoded(npy_of("<u2", "(1, 2)", "\x80\x80\xFF\xFF"s))), (std::vector<int>{128, 255}));
  EXPECT_EQ(decoded(npy_of("<u2", "(1, 2)", "\x02\x01\xFF\xFF"s), {.bits = 16}).values<std::uint16_t>()[0], 0x0102);
  expect_words(error_of([&] { decoded(npy_of("|u1", "(4,)", "abcd")); }), {"NPY", "1 axes"});
  expect_words(error_of([&] { decoded(npy_of("|i1", "(2, 2)", "abcd")); }), {"NPY", "uint8"});
  expect_words(error_of([&] { decoded(npy_of("|u1", "(2, 3)", "abc")); }), {"NPY", "(2, 3)"});
}

TEST(Decode, AllEightOrientations) {
  // An image of 16 x 8 whose quarters differ; the corners of the upright image say how it was turned.
  const Image stored = image_of(16, 32, 1, [](int y, int x, int) {
    return static_cast<std::uint8_t>(y < 8 ? (x < 16 ? 0 : 80) : (x < 16 ? 160 : 240));
  });
  const std::vector<int> corners[] = {{0, 80, 160, 240}, {80, 0, 240, 160}, {240, 160, 80, 0}, {160, 240, 0, 80},
                                      {0, 160, 80, 240}, {160, 0, 240, 80}, {240, 80, 160, 0}, {80, 240, 0, 160}};
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

/// A gray progressive JPEG of one block, whose scans after the first add nothing.
std::string jpeg_of_scans(int count) {
  const auto segment = [](char marker, const std::string& content) {
    return "\xFF"s + marker + '\0' + static_cast<char>(content.size() + 2) + content;
  };
  const std::string one_code = "\1" + std::string(16, '\0');  // a bit 0 for the symbol 0
  std::string file = "\xFF\xD8" + segment('\xDB', "\0"s + std::string(64, '\1')) +
                     segment('\xC2', "\x08\0\x08\0\x08\1\1\x11\0"s) + segment('\xC4', "\0"s + one_code) +
                     segment('\xC4', "\x10" + one_code) + segment('\xDA', "\1\1\0\0\0\0"s) + "\x7F";
  for (int i = 1; i < count; ++i) {  // 14 scans for each frequency: its highest bit, then the lower ones
    const int frequency = 1 + (i - 1) / 14, bit = 13 - (i - 1) % 14, before = bit == 13 ? 0 : bit + 1;
    const char range = static_cast<char>(frequency);
    file += segment('\xDA', "\1\1\0"s + range + range + static_cast<char>(before << 4 | bit)) + "\x7F";
  }
  return file + "\xFF\xD9";
}

TEST(Decode, ScansAreLimited) {
  EXPECT_EQ(levels(decoded(jpeg_of_scans(90))), std::vector<int>(64, 128));
  expect_words(error_of([] { decoded(jpeg_of_scans(120)); }), {"JPEG", "more than 100 scans"});
}

TEST(Decode, EveryFormatWithAnOrientationIsTurned) {
  const Image image = image_of(3, 5, 3,
                               [](int y, int x, int c) { return static_cast<std::uint8_t>(50 * y + 9 * x + c); });
  const std::string rows(reinterpret_cast<const char*>(image.data()), image.size().bytes());
  const std::string webp = webp_of(image).substr(12);
  constexpr std::uint8_t kHasExif = 0x08;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    Image upright;
    turn_upright(image, orientation, upright);
    const std::string exif = exif_of(orientation), png = png_of(image);
    const std::string as_long = "II*\0\x08\0\0\0\x01\0\x12\x01\x04\0\x01\0\0\0"s + exif.substr(18);
    const std::size_t end = png.size() - 12;  // of the pixels
    std::string digits = "\nexif\n      32\n";
    for (const char byte : "Exif\0\0"s + exif) {
      char pair[3];
      std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned char>(byte));
      digits += pair;
      if (digits.size() % 40 == 0) digits += '\n';
    }
    const std::string keyword = "Raw profile type exif\0"s;
    for (const std::string& file :
         {tiff_of(3, 5, 3, 8, rows, {.orientation = orientation}), png_with(png, png_chunk("eXIf", exif)),
          png_with(png, png_chunk("eXIf", as_long)), png.substr(0, end) + png_chunk("eXIf", exif) + png.substr(end),
          png_with(png, png_chunk("tEXt", keyword + digits + "\n")),
          png.substr(0, end) + png_chunk("zTXt", keyword + "\0"s + deflated(digits)) + png.substr(end),
          png_with(png, png_chunk("iTXt", keyword + "\0\0\0\0"s + digits)),
          png_with(png, png_chunk("iTXt", keyword + "\1\0en\0\0"s + deflated(digits))),
          // A chunk for it counts more than a text; other texts and damaged ones say nothing.
          png_with(png_with(png_with(png, png_chunk("tEXt", keyword + "\nexif\n 2\nzz")),
                            png_chunk("tEXt", "Comment\0"s + digits)),
                   png_chunk("eXIf", exif)),
          extended_webp(3, 5, kHasExif, webp + webp_chunk("EXIF", exif)),
          extended_webp(3, 5, kHasExif, webp + webp_chunk("EXIF", "Exif\0\0"s + exif))}) {
      const Image found = decoded(file);
      EXPECT_EQ(found.size(), upright.size());
      EXPECT_EQ(levels(found), levels(upright));
    }
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
  const std::string jpeg = jpeg_of(
      image_of(64, 64, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1)); }));
  const std::string png = png_of(plain(64, 64, {1, 2, 3}));
  for (const std::string* whole : {&jpeg, &png})
    for (const std::size_t size : {std::size_t{9}, whole->size() / 2, whole->size() - 20})
      expect_words(error_of([&] { decoded(whole->substr(0, size)); }), {"cannot decode"});
  expect_words(error_of([] { decoded(""); }), {"empty"});
  expect_words(error_of([] { decoded("hello, world"); }), {"not an image"});
  expect_words(error_of([] { decoded("GIF89a…"); }), {"cannot decode this GIF"});
  expect_words(error_of([] { decoded(std::string("\0\0\0 ftypavif", 12)); }), {"AVIF", "convert"});
  expect_words(error_of([] { Decoder().open_file("no/such.jpg"); }), {"cannot read"});
}

TEST(Decode, HugeSizesAreRefusedByTheHeader) {
  const Image dot = plain(1, 1, {1, 2, 3});
  const std::string png = png_of(dot), huge = "60000 x 60000";
  for (const std::string& file :
       {with_frame_header(jpeg_of(dot), 5, "\xEA\x60\xEA\x60"), png_resized(png, 60000, 60000),
        bmp_of(60000, 60000, 24, "", ""), bmp_of(-60000, 60000, 8, std::string(1024, 'p'), "\0\1"s, 1),
        "P5 60000 60000 255\n"s, "P1 60000 60000\n"s, gif_of(60000, 60000, gif_frame(1, 1, "\1"s)),
        gif_of(1, 1, gif_frame(60000, 60000, "\1"s)), webp_animation(60000, 60000, webp_frame(webp_of(dot), dot)),
        tiff_of(60000, 60000, 1, 8, "\0"s)})
    expect_words(error_of([&] { Decoder().open(stored(file)); }), {huge, "limit of 100 million"});
  // Of a size in bounds memory is taken only where a format cannot tell that the pixels are missing.
  for (const std::string& file : {bmp_of(9000, 9000, 24, "", "x"), "P6 9000 9000 255\nx"s, "P2 10000 10000 255\n1 2"s})
    expect_words(error_of([&] { decoded(file); }), {"cut off"});
  expect_words(error_of([&] { decoded(png_with(png, png_text_bomb(64 << 20))); }), {"PNG"});
  const TempFolder temp;
  write(temp.at("sparse.bmp"), bmp_of(1, 1, 24, "", "\1\2\3\0"s));
  fs::resize_file(temp.at("sparse.bmp"), static_cast<std::uintmax_t>(Decoder::kMostBytes) + 1);
  expect_words(error_of([&] { Decoder().open_file(temp.at("sparse.bmp")); }), {"bytes is above the limit"});
}

TEST(Decode, LargeImagesAreRefusedByTheirBytes) {
  const std::string png = png_resized(png_of(plain(1, 1, {1, 2, 3})), 10000, 10000);
  expect_words(error_of([&] { Decoder().open(stored(png)); }),
               {"10000 x 10000", "287 MiB", "256 MiB of max_image_mib"});
  const std::int64_t before = most_image_bytes();
  set_most_image_bytes(300'000'000);
  EXPECT_EQ(Decoder().open(stored(png)).width, 10000);
  set_most_image_bytes(299'999'999);
  error_of([&] { Decoder().open(stored(png)); });
  error_of([] { set_most_image_bytes(0); }, Fault::usage);
  set_most_image_bytes(before);
}

// What a file says of itself is known also where its pixels are missing.
TEST(Decode, HeadersOfBrokenImages) {
  const Image image = image_of(6, 9, 3,
                               [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 + c); });
  const std::string rows(reinterpret_cast<const char*>(image.data()), image.size().bytes());
  const std::string jpeg = jpeg_of(image), tiff = tiff_of(6, 9, 3, 8, rows), webp = webp_of(image);
  const std::string gif = gif_of(6, 9, gif_frame(6, 9, std::string(54, '\1')));
  const std::string frame = "\x2C";
  for (const auto& [file, format, channels] : {std::tuple{jpeg.substr(0, jpeg.size() - 30), "JPEG", 3},
                                               {png_of(image).substr(0, 60), "PNG", 3},
                                               {png_without(png_of(image), "IDAT"), "PNG", 3},
                                               {webp.substr(0, webp.size() - 10), "WebP", 3},
                                               {gif.substr(0, gif.rfind(frame) + 12), "GIF", 3},
                                               {bmp_of(6, 9, 24, "", "x"), "BMP", 3},
                                               {"P5 9 6 255\nx"s, "PNM", 1},
                                               {tiff_of(6, 9, 3, 8, "xyz"), "TIFF", 3}}) {
    SCOPED_TRACE(format);
    Decoder decoder;
    const ImageHeader header = decoder.open(stored(file));
    EXPECT_EQ(header.format, format);
    EXPECT_EQ(header.height, 6);
    EXPECT_EQ(header.width, 9);
    EXPECT_EQ(header.channels, channels);
    EXPECT_EQ(header.bits, 8);
    Image pixels;
    expect_words(error_of([&] { decoder.read(pixels); }), {"cannot decode this", format});
  }
  // A thumbnail in the header ends as an image does.
  const std::string thumbnail = exif_of(1) + jpeg_of(plain(8, 8, {1, 2, 3}));
  const std::string cut = jpeg_with_exif(jpeg.substr(0, jpeg.size() - 30), thumbnail);
  expect_words(error_of([&] { decoded(cut); }), {"cut off"});
}

TEST(Decode, NoDamageCrashes) {
  const Image image = image_of(40, 40, 3,
                               [](int y, int x, int c) { return static_cast<std::uint8_t>(y * x * (c + 1)); });
  for (const std::string& whole :
       {jpeg_of(image, {.orientation = 6}), jpeg_of(image, {.progressive = true}), png_of(image),
        bmp_of(40, 40, 24, "", std::string(4800, 'x')),
        gif_of(20, 20, gif_frame(20, 20, std::string(400, '\1'), true, 2)),
        tiff_of(40, 40, 3, 8, std::string(4800, 'x'), {.orientation = 5}),
        tiff_of(40, 40, 6, 8, std::string(9600, 'x')), tiff_of(40, 40, 4, 16, std::string(12800, 'x'), {.extra = {1}}),
        npy_of("<u2", "(20, 20, 6)", std::string(4800, 'x')), "P5 40 40 255\n" + std::string(1600, 'x'),
        "P3 4 4 9 " + std::string(100, '7'), webp_of(image), webp_animation(40, 40, webp_frame(webp_of(image), image)),
        bmp_of(4, 4, 8, std::string(16, 'p'), std::string("\4\1\0\0\4\2\0\0\0\4\1\2\1\2\0\1", 16), 1)})
    for (std::uint64_t round = 0; round < 120; ++round) {
      Random random(1, round);
      std::string bytes = whole;
      for (int i = 0; i < 4; ++i)
        bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<char>(random.bits());
      try {
        decoded(bytes, round % 2 ? DecodeOptions{} : DecodeOptions{.all_channels = true, .bits = 16});
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
  int files = 0, read = 0, compared = 0;
  while (std::getline(manifest, line)) {
    const std::vector<std::string> row = split(line, '\t');
    const std::string path = root + "/" + row[0], &expect = row[1];
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
      EXPECT_EQ(text(decoder.header().orientation), row[7]);
      // The manifest's mean drops alpha, so it holds for images that have none.
      const bool inks = row[3] == "CMYK", alpha = decoder.header().channels % 2 == 0 && !inks;
      if (row[10] == "-" || alpha) continue;
      ++compared;
      const std::vector<std::string> means = split(row[10], ',');
      const double pixels = static_cast<double>(image.height()) * image.width();
      for (int c = 0; c < image.channels(); ++c) {
        double sum = 0;
        for (std::size_t i = static_cast<std::size_t>(c); i < image.size().bytes();
             i += static_cast<std::size_t>(image.channels()))
          sum += image.data()[i];
        EXPECT_NEAR(sum / pixels, std::stod(means[c]), 0.75) << "channel " << c;
      }
    } catch (const Error& e) {
      EXPECT_NE(expect, "decode") << e.what();
    }
  }
  EXPECT_GT(files, 100);
  EXPECT_GT(read, 90);
  EXPECT_GT(compared, 60);
}

}  // namespace
}  // namespace neurim
