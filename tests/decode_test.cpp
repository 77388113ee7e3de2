// Decoding, on pictures made here and, where NEURIM_DATA is set, on odd and broken ones.
#include <gtest/gtest.h>

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
  expect_words(error_of([] { decoded("GIF89a…"); }), {"GIF", "convert"});
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
       {jpeg_of(image, {.orientation = 6}), jpeg_of(image, {.progressive = true}), png_of(image)})
    for (std::uint64_t round = 0; round < 300; ++round) {
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
    const std::string path = root + "/" + row[0], &expect = row[1], &format = row[2], &mode = row[3];
    SCOPED_TRACE(line);
    ++files;
    Decoder decoder;
    Image image;
    const bool ours = format == "JPEG" || format == "PNG";
    try {
      decoder.open_file(path);
      decoder.read(image);
      ++read;
      if (expect == "error-or-partial") {  // its pixels are sound, what comes after them is not
        EXPECT_FALSE(row[0].starts_with("made/"));
        continue;
      }
      EXPECT_TRUE(ours);
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
      if (ours) {
        EXPECT_NE(expect, "decode") << e.what();
      }
    }
  }
  EXPECT_GT(files, 100);
  EXPECT_GT(read, 40);
}

}  // namespace
}  // namespace neurim
