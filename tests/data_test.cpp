// Sources, decoding, transforms and the loader, on synthetic files and, where NEURIM_DATA is set, on real
// ones.
#include <gtest/gtest.h>
#include <spng.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <sstream>

#include "neurim/base/file.h"
#include "neurim/data/exif.h"
#include "neurim/data/loader.h"

// clang-format off: jpeglib.h needs <cstdio> before it
#include <jpeglib.h>
// clang-format on

namespace neurim {
namespace {

/// A new folder that is removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "neurim-data-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { fs::remove_all(path_); }
  /// The path of a file in it, whose folders exist.
  std::string at(const std::string& file) const {
    fs::create_directories((path_ / file).parent_path());
    return (path_ / file).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

using Pixel = std::function<std::uint8_t(int y, int x, int c)>;

Image image_of(int height, int width, int channels, const Pixel& pixel) {
  Image image;
  image.reshape({height, width, channels});
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) image.row(y)[x * channels + c] = pixel(y, x, c);
  return image;
}

Image plain(int height, int width, std::vector<std::uint8_t> color) {
  return image_of(height, width, static_cast<int>(color.size()),
                  [&](int, int, int c) { return color[static_cast<std::size_t>(c)]; });
}

struct JpegOptions {
  bool progressive = false;
  int orientation = 0;  // 0: no EXIF
  J_COLOR_SPACE stored = JCS_UNKNOWN;
};

std::string jpeg_of(const Image& image, const JpegOptions& options = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width());
  info.image_height = static_cast<JDIMENSION>(image.height());
  info.input_components = image.channels();
  info.in_color_space = image.channels() == 1 ? JCS_GRAYSCALE : image.channels() == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (options.stored != JCS_UNKNOWN) jpeg_set_colorspace(&info, options.stored);
  jpeg_set_quality(&info, 95, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (options.orientation) {
    std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\0\0\0\0\0\0\0\0", 32);
    exif[24] = static_cast<char>(options.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()), exif.size());
  }
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string result(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

struct PngOptions {
  std::uint8_t color_type = SPNG_COLOR_TYPE_TRUECOLOR, depth = 8;
  const spng_plte* palette = nullptr;
  const spng_trns* transparent = nullptr;
};

/// `rows` is in the file's own format, host-endian.
std::string png_of(int height, int width, const std::string& rows, const PngOptions& options) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(width), header.height = static_cast<std::uint32_t>(height);
  header.color_type = options.color_type, header.bit_depth = options.depth;
  spng_set_ihdr(context, &header);
  if (options.palette) spng_set_plte(context, const_cast<spng_plte*>(options.palette));
  if (options.transparent) spng_set_trns(context, const_cast<spng_trns*>(options.transparent));
  EXPECT_EQ(spng_encode_image(context, rows.data(), rows.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE), 0);
  std::size_t size = 0;
  int error = 0;
  void* bytes = spng_get_png_buffer(context, &size, &error);
  std::string result(static_cast<char*>(bytes), size);
  std::free(bytes);
  spng_ctx_free(context);
  return result;
}

std::string png_of(const Image& image) {
  const std::string rows(reinterpret_cast<const char*>(image.data()), image.size().bytes());
  PngOptions options;
  if (image.channels() == 1) options.color_type = SPNG_COLOR_TYPE_GRAYSCALE;
  return png_of(image.height(), image.width(), rows, options);
}

Image decoded(std::string_view bytes, const DecodeOptions& options = {}) {
  Decoder decoder;
  Image image;
  decoder.decode({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "a/picture.jpg", options,
                 image);
  return image;
}

std::vector<int> levels(const Image& image) { return {image.data(), image.data() + image.size().bytes()}; }

/// Expects each level within `tolerance`.
void expect_near(const std::vector<int>& found, const std::vector<int>& expected, int tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << "at " << i;
}

/// The message of the Error that `action` throws; fails where it throws none or one of another kind.
std::string error_of(const std::function<void()>& action, Fault fault = Fault::data) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.fault()), static_cast<int>(fault)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " | " << message;
}

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx_images(int count, int height, int width) {
  std::string bytes = big_endian(0x803);
  for (const int size : {count, height, width}) bytes += big_endian(static_cast<std::uint32_t>(size));
  for (int i = 0; i < count * height * width; ++i) bytes += static_cast<char>(i * 7);
  return bytes;
}

std::string idx_labels(const std::vector<int>& labels) {
  std::string bytes = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size()));
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

std::vector<int> cycle(int count, int classes) {
  std::vector<int> labels;
  for (int i = 0; i < count; ++i) labels.push_back(i % classes);
  return labels;
}

void write_gz(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

std::string real_data(const std::string& file) {
  const char* root = std::getenv("NEURIM_DATA");
  return root ? text(root, "/", file) : "";
}

#define NEED_DATA(variable, file)               \
  const std::string variable = real_data(file); \
  if (variable.empty() || !fs::exists(variable)) GTEST_SKIP() << "NEURIM_DATA does not lead to " << file

// ----------------------------------------------------------------------------------------------------
// decoding

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

TEST(Decode, ErrorsNameFileAndReason) {
  const std::string jpeg = jpeg_of(image_of(
      64, 64, 3, [](int y, int x, int c) { return static_cast<std::uint8_t>(y * 31 + x * 17 * (c + 1)); }));
  const std::string png = png_of(plain(64, 64, {1, 2, 3}));
  for (const std::string* whole : {&jpeg, &png})
    for (const std::size_t size : {std::size_t{9}, whole->size() / 2, whole->size() - 20})
      expect_words(error_of([&] { decoded(whole->substr(0, size)); }), {"a/picture.jpg", "cannot decode"});
  expect_words(error_of([] { decoded(""); }), {"a/picture.jpg", "empty"});
  expect_words(error_of([] { decoded("hello, world"); }), {"not a picture"});
  expect_words(error_of([] { decoded("GIF89a…"); }), {"GIF", "convert"});
  // 60,000 x 60,000 is refused by its header.
  std::string large = png_of(1, 1, "x", {SPNG_COLOR_TYPE_GRAYSCALE});
  large.replace(16, 8, big_endian(60000) + big_endian(60000));
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(large.data()) + 12, 17);
  large.replace(29, 4, big_endian(static_cast<std::uint32_t>(crc)));
  expect_words(error_of([&] { decoded(large); }), {"60000 x 60000", "limit of 100 million"});
  Decoder decoder;
  Image image;
  expect_words(error_of([&] { decoder.decode_file("no/such.jpg", {}, image); }),
               {"no/such.jpg", "cannot read"});
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
        expect_words(e.what(), {"a/picture.jpg"});
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
      decoder.decode_file(path, {}, image);
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
      expect_words(e.what(), {path});
      if (ours) {
        EXPECT_NE(expect, "decode") << e.what();
      }
    }
  }
  EXPECT_GT(files, 100);
  EXPECT_GT(read, 40);
}

// ----------------------------------------------------------------------------------------------------
// transforms

Image pattern(int height, int width) {
  return image_of(height, width, 3, [](int y, int x, int c) {
    return static_cast<std::uint8_t>(x * x * 7 + y * 13 * (c + 1) + x * y * 3);
  });
}

Image resized(const Image& in, int height, int width) {
  Resampler resampler;
  Image out;
  out.reshape({height, width, in.channels()});
  resampler.resize(in, {0, 0, in.height(), in.width()}, height, width, {0, 0, height, width}, out);
  return out;
}

TEST(Resample, AgreesWithPillow) {
  // Image.resize(…, BILINEAR) of Pillow on the same pattern.
  expect_near(
      levels(resized(pattern(17, 13), 5, 4)),
      {49,  69,  87,  127, 126, 132, 126, 136, 139, 127, 131, 127, 100, 144, 148, 126, 120, 132, 122, 120,
       135, 124, 118, 134, 138, 138, 113, 125, 133, 130, 128, 133, 140, 130, 129, 138, 143, 102, 144, 129,
       125, 117, 130, 130, 134, 122, 124, 133, 140, 146, 126, 126, 125, 118, 128, 124, 124, 110, 130, 125},
      1);
  expect_near(
      levels(resized(pattern(5, 6), 9, 11)),
      {0,   0,   0,   2,   2,   2,   6,   6,   6,   16,  16,  16,  27,  27,  27,  46,  46,  46,  65,  65,
       65,  92,  92,  92,  121, 121, 121, 155, 155, 155, 175, 175, 175, 4,   9,   13,  7,   11,  15,  11,
       16,  20,  22,  26,  30,  33,  38,  42,  53,  57,  61,  72,  77,  81,  100, 104, 109, 129, 134, 138,
       164, 168, 173, 184, 189, 193, 12,  23,  35,  14,  26,  38,  20,  32,  43,  31,  43,  54,  44,  55,
       67,  64,  75,  87,  85,  96,  108, 113, 125, 136, 143, 155, 166, 179, 191, 202, 200, 211, 223, 19,
       38,  56,  22,  41,  60,  29,  47,  66,  41,  59,  78,  54,  73,  92,  75,  94,  113, 97,  116, 134,
       126, 145, 164, 157, 160, 179, 194, 135, 154, 215, 120, 139, 26,  52,  78,  30,  56,  82,  37,  63,
       89,  50,  76,  102, 65,  91,  117, 87,  113, 139, 109, 135, 161, 139, 165, 191, 171, 162, 188, 209,
       60,  86,  231, 1,   27,  33,  66,  100, 38,  71,  104, 46,  79,  112, 59,  93,  126, 76,  109, 142,
       98,  131, 165, 122, 155, 182, 152, 186, 135, 166, 184, 94,  127, 83,  70,  104, 24,  57,  40,  81,
       121, 46,  86,  126, 55,  95,  136, 69,  109, 150, 86,  127, 167, 109, 150, 190, 134, 174, 203, 166,
       189, 96,  165, 181, 25,  65,  96,  64,  6,   47,  87,  48,  95,  143, 53,  101, 149, 63,  111, 158,
       79,  127, 174, 97,  144, 192, 121, 169, 216, 147, 186, 230, 179, 126, 123, 179, 79,  53,  80,  73,
       93,  22,  69,  117, 52,  104, 156, 58,  110, 162, 68,  120, 172, 85,  137, 189, 103, 155, 207, 128,
       180, 232, 154, 194, 246, 187, 88,  140, 187, 18,  70,  89,  59,  111, 31,  83,  135},
      1);
}

TEST(Resample, AWindowIsAPartOfTheWhole) {
  const Image in = pattern(40, 31), whole = resized(in, 17, 23);
  Image part;
  part.reshape({9, 12, 3});
  Resampler resampler;
  resampler.resize(in, {0, 0, 40, 31}, 17, 23, {3, 5, 6, 8}, part, 2, 1);
  for (int y = 0; y < 6; ++y)
    for (int i = 0; i < 8 * 3; ++i) ASSERT_EQ(part.row(2 + y)[3 + i], whole.row(3 + y)[15 + i]);
}

std::vector<float> transformed(const Image& image, const Preprocess& preprocess) {
  Transform transform(preprocess);
  std::vector<float> out(preprocess.size().bytes());
  transform(image, out.data());
  return out;
}

TEST(Preprocess, NormalisesToPlanes) {
  const Image image = pattern(4, 5);
  const std::vector<float> out =
      transformed(image, {.height = 4, .width = 5, .mean = {0.1, 0.2, 0.3}, .std = {0.5, 0.25, 2}});
  const double mean[] = {0.1, 0.2, 0.3}, deviation[] = {0.5, 0.25, 2};
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 20; ++i)
      EXPECT_NEAR(out[static_cast<std::size_t>(c * 20 + i)],
                  (image.data()[3 * i + c] / 255. - mean[c]) / deviation[c], 1e-5);
}

TEST(Preprocess, ChannelsAreConverted) {
  const std::vector<float> gray =
      transformed(plain(2, 2, {255, 0, 0}), {.channels = 1, .height = 2, .width = 2});
  EXPECT_NEAR(gray[0], 76 / 255., 1e-6);
  const std::vector<float> rgb = transformed(plain(2, 2, {51}), {.channels = 3, .height = 2, .width = 2});
  for (const float value : rgb) EXPECT_NEAR(value, 0.2, 1e-6);
}

TEST(Preprocess, ResizeModes) {
  // 40 x 20 with a bright left half.
  const Image wide =
      image_of(20, 40, 1, [](int, int x, int) { return static_cast<std::uint8_t>(x < 20 ? 255 : 0); });
  const auto row = [&](ResizeMode mode, double crop_pct) {
    const std::vector<float> out = transformed(
        wide, {.channels = 1, .height = 8, .width = 8, .resize = mode, .crop_pct = crop_pct, .fill = 51});
    return std::vector<float>(out.begin(), out.begin() + 8);
  };
  for (const auto& [mode, crop_pct] :
       {std::pair{ResizeMode::crop, 1.0}, {ResizeMode::crop, 0.5}, {ResizeMode::squash, 1.0}}) {
    const std::vector<float> out = row(mode, crop_pct);
    EXPECT_NEAR(out[0], 1, 1e-6);
    EXPECT_NEAR(out[7], 0, 1e-6);
  }
  for (const float value : row(ResizeMode::letterbox, 1)) EXPECT_NEAR(value, 0.2, 1e-6);  // the upper border
  const std::vector<float> boxed = transformed(
      wide, {.channels = 1, .height = 8, .width = 8, .resize = ResizeMode::letterbox, .fill = 51});
  EXPECT_NEAR(boxed[2 * 8], 1, 1e-6);
  EXPECT_NEAR(boxed[6 * 8], 0.2, 1e-6);
}

TEST(Preprocess, JsonRoundTrip) {
  Preprocess preprocess{.channels = 1,
                        .height = 192,
                        .width = 320,
                        .resize = ResizeMode::letterbox,
                        .crop_pct = 0.875,
                        .fill = 114,
                        .mean = {0.1307},
                        .std = {0.3081}};
  preprocess.decode = {.exif = false, .background = {1, 2, 3}};
  EXPECT_EQ(Preprocess::from_json(preprocess.json()), preprocess);
  EXPECT_EQ(Preprocess::from_json("{}"), Preprocess{});
  expect_words(error_of([] { Preprocess::from_json(R"({"crop":1})"); }), {"unknown field \"crop\""});
  expect_words(error_of([] { Preprocess::from_json(R"({"resize":"fit"})"); }), {"\"fit\"", "letterbox"});
  expect_words(error_of([] { Preprocess::from_json(R"({"height":0})"); }), {"size is 0"});
  error_of([] { Preprocess::from_json(R"({"height":"tall"})"); });
  error_of([] { Preprocess::from_json("[1]"); });
  error_of([] { Preprocess::from_json("{"); });
  expect_words(error_of([] { Preprocess{.mean = {1, 2}}.check(); }, Fault::usage), {"mean has 2 values"});
}

std::vector<int> posed(const Pose& pose, const Image& in, std::uint8_t fill = 0) {
  Image out;
  out.reshape(in.size());
  apply_pose(pose, fill, in.data(), in.size(), out.data());
  return levels(out);
}

TEST(Augment, PosesMovePixels) {
  const Image in =
      image_of(3, 3, 1, [](int y, int x, int) { return static_cast<std::uint8_t>(10 * y + x + 1); });
  EXPECT_EQ(posed({.mirrored = true}, in), (std::vector<int>{3, 2, 1, 13, 12, 11, 23, 22, 21}));
  EXPECT_EQ(posed({.down = 1, .right = -1}, in, 9), (std::vector<int>{9, 9, 9, 2, 3, 9, 12, 13, 9}));
  const double quarter = std::acos(-1.0) / 2;
  EXPECT_EQ(posed({.angle = quarter}, in), (std::vector<int>{21, 11, 1, 22, 12, 2, 23, 13, 3}));
  EXPECT_EQ(posed({.angle = 1e-12}, in), levels(in));
}

TEST(Augment, ChoicesStayInRangeAndCoverIt) {
  const Augment augment{
      .random_resized_crop = true, .crop_padding = 4, .hflip = 0.5, .rotation = 10, .brightness = 0.3};
  std::set<int> shifts;
  int mirrored = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Random random(1, i, 0);
    const Box box = random_part(augment, 60, 90, random);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, 60);
    ASSERT_LE(box.left + box.width, 90);
    ASSERT_GE(box.height * box.width, 0.07 * 60 * 90);
    const Pose pose = random_pose(augment, random);
    ASSERT_LE(std::abs(pose.angle), 10 * std::acos(-1.0) / 180);
    ASSERT_NEAR(pose.brightness, 1, 0.3001);
    shifts.insert(pose.down);
    shifts.insert(100 + pose.right);
    mirrored += pose.mirrored;
  }
  EXPECT_EQ(shifts.size(), 18u);  // -4 … 4, both ways
  EXPECT_NEAR(mirrored, 1000, 100);
  EXPECT_GE(random_part(augment, 10, 1000, *std::make_unique<Random>(1)).width,
            7);  // the way out for odd shapes
}

// ---------------------------------------------------------------------------------------------------- data
// sets

/// `per_class` pictures for each class below `folder`.
void write_classes(const TempFolder& temp, const std::string& folder, const std::vector<std::string>& classes,
                   int per_class) {
  for (std::size_t c = 0; c < classes.size(); ++c)
    for (int i = 0; i < per_class; ++i) {
      const std::uint8_t base = static_cast<std::uint8_t>(40 * c + static_cast<std::size_t>(i));
      const Image image = plain(20 + i % 3, 24, {base, 100, 200});
      write(temp.at(text(folder, classes[c], "/", i, i % 2 ? ".png" : ".JPG")),
            i % 2 ? png_of(image) : jpeg_of(image));
    }
}

TEST(Folder, VirtualSplitIsStratifiedSeededAndWithoutCopies) {
  const TempFolder temp;
  write_classes(temp, "", {"cat", "ant", "bee"}, 10);
  write(temp.at("LICENSE"), "text");
  write(temp.at("ant/README.md"), "text");
  write(temp.at("ant/.hidden.png"), "text");
  write(temp.at(".ipynb_checkpoints/x.png"), "text");
  write(temp.at("__MACOSX/x.png"), "text");
  fs::create_directories(temp.path() + "/empty");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.2});
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{8, 8, 8}));
  EXPECT_EQ(data.class_counts(Split::val), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(data.size(Split::test), 0);
  const auto names = [](const Dataset& set) {
    std::set<std::string> all;
    for (std::int64_t i = 0; i < set.size(Split::val); ++i) all.insert(set.name(Split::val, i));
    return all;
  };
  EXPECT_EQ(names(data), names(Dataset::open(temp.path(), {.val_split = 0.2})));
  EXPECT_NE(names(data), names(Dataset::open(temp.path(), {.val_split = 0.2, .seed = 7})));
  for (std::int64_t i = 0; i < data.size(Split::train); ++i) {
    const std::string file = data.name(Split::train, i);
    EXPECT_FALSE(names(data).contains(file));
    const std::string class_name = fs::path(file).parent_path().filename().string();
    EXPECT_EQ(data.class_names()[static_cast<std::size_t>(data.label(Split::train, i))], class_name);
  }
  EXPECT_EQ(Dataset::open(temp.path()).size(Split::val), 3);
  EXPECT_EQ(Dataset::open(temp.path(), {.val_split = 0.0}).size(Split::train), 30);
}

TEST(Folder, SplitsAreMappedByName) {
  for (const std::string val : {"val", "valid", "validation"}) {
    const TempFolder temp;
    write_classes(temp, "train/", {"a", "b", "c"}, 3);
    write_classes(temp, val + "/", {"b", "c"}, 2);
    write_classes(temp, "test/", {"c"}, 1);
    const Dataset data = Dataset::open(temp.path());
    EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{3, 3, 3}));
    EXPECT_EQ(data.class_counts(Split::val), (std::vector<std::int64_t>{0, 2, 2}));
    EXPECT_EQ(data.class_counts(Split::test), (std::vector<std::int64_t>{0, 0, 1}));
  }
}

TEST(Folder, ClassNamesFromOutsideRule) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 2);
  const Dataset data = Dataset::open(temp.path(), {.class_names = {"b", "x", "a"}});
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"b", "x", "a"}));
  expect_words(error_of([&] { Dataset::open(temp.path(), {.class_names = {"b", "x", "y"}}); }),
               {"does not know the classes [a]", "[a, b]", "[b, x, y]"});
  const TempFolder only_test;
  write_classes(only_test, "test/", {"b"}, 2);
  EXPECT_EQ(Dataset::open(only_test.path(), {.class_names = {"a", "b"}}).class_counts(Split::test),
            (std::vector<std::int64_t>{0, 2}));
}

TEST(Folder, ErrorsSayCauseAndFix) {
  const TempFolder temp;
  const auto message = [&](const std::string& path) {
    return error_of([&] { Dataset::open(temp.at(path)); });
  };
  expect_words(message("missing"), {"missing", "no such folder"});
  write(temp.at("file"), "x");
  expect_words(message("file"), {"not a folder"});
  fs::create_directories(temp.path() + "/empty");
  expect_words(message("empty"), {"no class folders", "expected CLASS/*.jpg"});
  write_classes(temp, "one/", {"a"}, 2);
  expect_words(message("one"), {"only the class \"a\"", "at least two"});
  write_classes(temp, "outer/inner/", {"a", "b"}, 2);
  expect_words(message("outer"), {"did you mean", "outer/inner"});
  write_classes(temp, "odd/train/", {"a", "b"}, 2);
  write_classes(temp, "odd/val/", {"a", "z"}, 2);
  expect_words(message("odd"), {"odd/val", "[z]", "[a, b]"});
  write_classes(temp, "two/train/", {"a", "b"}, 2);
  write_classes(temp, "two/val/", {"a", "b"}, 2);
  write_classes(temp, "two/valid/", {"a", "b"}, 2);
  expect_words(message("two"), {"val/ and valid/"});
  write_classes(temp, "no-train/test/", {"a", "b"}, 2);
  expect_words(message("no-train"), {"no train folder"});
}

TEST(Folder, NumberedClassesAreAnnounced) {
  const TempFolder temp;
  write_classes(temp, "", {"1", "2", "10"}, 1);
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"1", "10", "2"}));
  ASSERT_EQ(data.notes().size(), 1u);
  expect_words(data.notes()[0], {"lexicographic", "10"});
}

/// Writes a small set; `labels` are those of t10k.
void write_idx(const TempFolder& temp, const std::vector<int>& labels) {
  write(temp.at("train-images-idx3-ubyte"), idx_images(30, 4, 5));
  write_gz(temp.at("train-labels-idx1-ubyte.gz"), idx_labels(cycle(30, 3)));
  write_gz(temp.at("t10k-images-idx3-ubyte.gz"), idx_images(6, 4, 5));
  write(temp.at("t10k-labels-idx1-ubyte"), idx_labels(labels));
}

TEST(Idx, PlainAndPacked) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(data.size(Split::train), 30);
  EXPECT_EQ(data.size(Split::val), 6);  // the test split serves, as nothing else was asked
  EXPECT_EQ(data.size(Split::test), 6);
  expect_words(data.name(Split::test, 5), {"t10k-images-idx3-ubyte.gz[5]"});
  Decoder decoder;
  Image image;
  data.read(Split::test, 1, {}, decoder, image);
  EXPECT_EQ(image.size(), (ImageSize{4, 5, 1}));
  EXPECT_EQ(image.data()[2], static_cast<std::uint8_t>(22 * 7));
  const Dataset cut = Dataset::open(temp.path(), {.val_split = 0.2});
  EXPECT_EQ(cut.class_counts(Split::val), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(cut.size(Split::train), 24);
  write(temp.at("labels.txt"), "shirt\r\nbag\ncoat\n");
  EXPECT_EQ(Dataset::open(temp.path()).class_names(), (std::vector<std::string>{"shirt", "bag", "coat"}));
  const Dataset mapped = Dataset::open(temp.path(), {.class_names = {"coat", "bag", "shirt"}});
  EXPECT_EQ(mapped.label(Split::train, 0), 2);
}

TEST(Idx, DamageIsFound) {
  const auto message = [](const std::function<void(const TempFolder&)>& damage) {
    const TempFolder temp;
    write_idx(temp, cycle(6, 3));
    damage(temp);
    return error_of([&] { Dataset::open(temp.path()); });
  };
  const std::string images = idx_images(30, 4, 5);
  const std::string file = "train-images-idx3-ubyte";
  expect_words(message([&](auto& t) { write(t.at(file), images.substr(0, 300)); }),
               {file, "284 of 600 bytes"});
  expect_words(message([&](auto& t) { write(t.at(file), images + "x"); }), {file, "more bytes"});
  expect_words(message([&](auto& t) { write(t.at(file), idx_labels({1})); }), {file, "magic"});
  expect_words(message([&](auto& t) { write(t.at(file), ""); }), {file});
  expect_words(message([&](auto& t) {
                 write(t.at(file), images.substr(0, 4) + "\xFF\xFF\xFF\xFF" + images.substr(8));
               }),
               {file, "cannot hold"});
  expect_words(message([&](auto& t) { write(t.at(file), idx_images(29, 4, 5)); }),
               {"29 pictures", "30 labels"});
  expect_words(
      message([&](auto& t) { write(t.at("t10k-labels-idx1-ubyte"), idx_labels({0, 1, 9, 1, 9, 0})); }),
      {"t10k-labels", "label 9 at index 2", "3 classes"});
  expect_words(message([&](auto& t) { fs::remove(t.at("train-labels-idx1-ubyte.gz")); }),
               {"train-labels", "missing"});
  expect_words(message([&](auto& t) {
                 const std::string path = t.at("t10k-images-idx3-ubyte.gz");
                 write(path, read_file(path).substr(0, 60));
               }),
               {"t10k-images-idx3-ubyte.gz", "ends or breaks"});
}

TEST(Idx, RealSets) {
  NEED_DATA(fashion, "fashion-mnist");
  for (const std::string& path : {real_data("mnist"), fashion}) {
    const Dataset data = Dataset::open(path);
    EXPECT_EQ(data.size(Split::train), 60000);
    EXPECT_EQ(data.size(Split::val), 10000);
    EXPECT_EQ(data.class_names().size(), 10u);
    if (path != fashion) continue;
    EXPECT_EQ(data.class_counts(Split::train), std::vector<std::int64_t>(10, 6000));
    // The published mean and deviation of the training pictures.
    Loader loader(data, Split::train, {.channels = 1, .height = 28, .width = 28}, {},
                  {.batch = 128, .workers = 0});
    loader.start(0);
    Batch batch;
    double sum = 0, squares = 0, count = 0;
    while (loader.next(batch))
      for (const float value : batch.images) sum += value, squares += value * value, ++count;
    EXPECT_EQ(count, 60000 * 784);
    EXPECT_NEAR(sum / count, 0.2860, 1e-4);
    EXPECT_NEAR(std::sqrt(squares / count - sum * sum / count / count), 0.3530, 1e-4);
  }
}

// ---------------------------------------------------------------------------------------------------- loader

struct Epoch {
  std::vector<float> images;
  std::vector<std::int64_t> labels, indices;
  std::vector<int> sizes;
  bool operator==(const Epoch&) const = default;
};

Epoch epoch_of(Loader& loader, std::uint32_t epoch, std::int64_t first_batch = 0) {
  Epoch all;
  Batch batch;
  loader.start(epoch, first_batch);
  while (loader.next(batch)) {
    all.images.insert(all.images.end(), batch.images.begin(), batch.images.end());
    all.labels.insert(all.labels.end(), batch.labels.begin(), batch.labels.end());
    all.indices.insert(all.indices.end(), batch.indices.begin(), batch.indices.end());
    all.sizes.push_back(batch.size);
  }
  EXPECT_FALSE(loader.next(batch));
  return all;
}

const Preprocess kSmall{.height = 16, .width = 12, .mean = {0.4, 0.5, 0.6}, .std = {0.2}};
const Augment kMuch{.crop_padding = 2, .hflip = 0.5, .rotation = 15, .brightness = 0.2};

TEST(Loader, SameForAnyNumberOfWorkersAndAnyCache) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b", "c"}, 15);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const bool part : {false, true}) {
    Augment augment = kMuch;
    augment.random_resized_crop = part;
    std::optional<Epoch> first, second;
    for (const int workers : {0, 1, 2, 7})
      for (const std::size_t cache : {std::size_t{0}, std::size_t{1} << 30}) {
        Loader loader(data, Split::train, kSmall, augment,
                      {.batch = 4, .workers = workers, .shuffle = true, .cache_bytes = cache});
        const Epoch e0 = epoch_of(loader, 0), e1 = epoch_of(loader, 1);
        if (!first) first = e0, second = e1;
        EXPECT_TRUE(e0 == *first) << workers << " workers, cache " << cache;
        EXPECT_TRUE(e1 == *second) << workers << " workers, cache " << cache;
        EXPECT_TRUE(epoch_of(loader, 0) == *first);  // history has no influence
      }
    EXPECT_NE(first->indices, second->indices);
    EXPECT_NE(first->images, second->images);
    std::vector<std::int64_t> sorted = first->indices, all(45);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    EXPECT_EQ(first->sizes.size(), 12u);
    EXPECT_EQ(first->sizes.back(), 1);
  }
}

TEST(Loader, PixelsAreThoseOfTheTransform) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 5);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  Loader loader(data, Split::train, kSmall, {}, {.batch = 3, .workers = 2});
  const Epoch all = epoch_of(loader, 0);
  for (std::int64_t i = 0; i < 10; ++i) {
    Decoder decoder;
    Image image;
    data.read(Split::train, i, {}, decoder, image);
    const std::vector<float> expected = transformed(image, kSmall);
    const auto begin = all.images.begin() + i * static_cast<std::int64_t>(expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), begin));
    EXPECT_EQ(all.labels[static_cast<std::size_t>(i)], data.label(Split::train, i));
  }
}

TEST(Loader, StartsAnywhereAndDropsTheRest) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset data = Dataset::open(temp.path());
  const Preprocess preprocess{.channels = 1, .height = 4, .width = 5};
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, preprocess, {}, {.batch = 8, .workers = workers, .shuffle = true});
    EXPECT_EQ(loader.batches(), 4);
    const Epoch whole = epoch_of(loader, 3);
    Batch batch;
    loader.start(5);
    ASSERT_TRUE(loader.next(batch));  // and leave
    const Epoch rest = epoch_of(loader, 3, 2);
    EXPECT_EQ(rest.indices, std::vector<std::int64_t>(whole.indices.begin() + 16, whole.indices.end()));
    EXPECT_EQ(rest.images, std::vector<float>(whole.images.begin() + 16 * 20, whole.images.end()));
    Loader dropping(data, Split::train, preprocess, {},
                    {.batch = 8, .workers = workers, .shuffle = true, .drop_last = true});
    EXPECT_EQ(epoch_of(dropping, 3).sizes, std::vector<int>(3, 8));
  }
  error_of([&] { Loader(data, Split::train, preprocess, {}, {.batch = 31, .drop_last = true}); },
           Fault::usage);
  error_of([&] { Loader(data, Split::train, preprocess, {}, {.batch = 0}); }, Fault::usage);
  error_of([&] { Loader(data, Split::train, preprocess, {.hflip = 2}); }, Fault::usage);
  Loader unstarted(data, Split::train, preprocess);
  Batch batch;
  error_of([&] { unstarted.next(batch); }, Fault::usage);
}

TEST(Loader, BadSamplesAreReplacedNamedAndLimited) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 10);
  write(temp.at("a/3.png"), "no picture");
  write(temp.at("b/9.png"),
        read_file(temp.at("b/9.png")).substr(0, 40));  // the last sample: replaced by the first
  write(temp.at("a/4.JPG"), jpeg_of(plain(20, 24, {1, 2, 3}), {.orientation = 6}));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, kSmall, {}, {.batch = 4, .workers = workers, .max_bad = 2});
    const Epoch all = epoch_of(loader, 0);
    EXPECT_EQ(all.indices[3], 4);
    EXPECT_EQ(all.indices[19], 0);
    EXPECT_EQ(all.labels[19], 0);
    EXPECT_TRUE(
        std::equal(all.images.begin() + 3 * 576, all.images.begin() + 4 * 576, all.images.begin() + 4 * 576));
    EXPECT_TRUE(epoch_of(loader, 0) == all);
    const std::vector<BadSample> bad = loader.bad();
    ASSERT_EQ(bad.size(), 2u);  // once each, after two epochs
    EXPECT_EQ(bad[0].index, 3);
    expect_words(bad[0].reason, {"a/3.png", "not a picture"});
    expect_words(bad[1].reason, {"b/9.png", "cannot decode"});
    EXPECT_EQ(loader.turned(), 1);

    Loader strict(data, Split::train, kSmall, {}, {.batch = 4, .workers = workers});  // 1 % of 20: one sample
    const std::string message = error_of([&] { epoch_of(strict, 0); });
    expect_words(message, {"2 of the 20 samples of the train split", "a/3.png", "b/9.png", "max_bad"});
    error_of([&] { epoch_of(strict, 1); });  // and it stays so
  }
}

TEST(Loader, AllBadEnds) {
  const TempFolder temp;
  for (const std::string file : {"a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg"}) write(temp.at(file), "x");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, kSmall, {}, {.batch = 2, .workers = workers, .max_bad = 100});
    expect_words(error_of([&] { epoch_of(loader, 0); }), {"4 of the 4"});
  }
}

/// Fails in a way that is not the data's fault.
class BrokenSource : public Source {
 public:
  std::string name(std::int64_t) const override { return "broken"; }
  int read(std::int64_t, const DecodeOptions&, Decoder&, Image&) const override {
    throw std::logic_error("cable pulled");
  }
};

TEST(Loader, WorkersErrorsReachTheUser) {
  Listing listing{std::make_shared<BrokenSource>(), {"a", "b"}, {0, 1, 0, 1}, {}, {}};
  listing[Split::train] = {0, 1, 2, 3};
  const Dataset data(listing, {.val_split = 0.0}, "broken");
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::train, kSmall, {}, {.workers = workers});
    expect_words(error_of([&] { epoch_of(loader, 0); }, Fault::failure), {"cable pulled"});
  }
}

TEST(Loader, RealPhotos) {
  NEED_DATA(archive, "photos-clothing-10-classes.tar");
  const TempFolder temp;
  ASSERT_EQ(std::system(text("tar xf '", archive, "' -C '", temp.path(), "'").c_str()), 0);
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"did you mean", "clothing"});
  const Dataset data = Dataset::open(temp.path() + "/clothing");
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"dress", "hat", "longsleeve", "outwear", "pants",
                                                          "shirt", "shoes", "shorts", "skirt", "t-shirt"}));
  EXPECT_EQ(data.class_counts(Split::train), std::vector<std::int64_t>(10, 100));
  EXPECT_EQ(data.size(Split::train) + data.size(Split::val) + data.size(Split::test), 1431);
  const Preprocess preprocess{.height = 64, .width = 64, .crop_pct = 0.875};
  const Augment augment{.random_resized_crop = true, .hflip = 0.5};
  std::optional<Epoch> first;
  for (const int workers : {0, 2}) {
    Loader loader(data, Split::val, preprocess, augment, {.batch = 32, .workers = workers, .shuffle = true});
    const Epoch all = epoch_of(loader, 0);
    EXPECT_TRUE(loader.bad().empty());
    if (!first) first = all;
    EXPECT_TRUE(all == *first);
  }
}

}  // namespace
}  // namespace neurim
