// Images, files and folders that tests make for themselves, and what they compare.
#pragma once
#include <gtest/gtest.h>
#include <spng.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "neurim/base/environment.h"
#include "neurim/base/file.h"
#include "neurim/data/decode.h"
#include "tests/errors.h"

// clang-format off: jpeglib.h needs <cstdio> before it
#include <jpeglib.h>
// clang-format on

namespace neurim {

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

inline void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

using Pixel = std::function<std::uint8_t(int y, int x, int c)>;

inline Image image_of(int height, int width, int channels, const Pixel& pixel) {
  Image image;
  image.reshape({height, width, channels});
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) image.row(y)[x * channels + c] = pixel(y, x, c);
  return image;
}

inline Image plain(int height, int width, std::vector<std::uint8_t> color) {
  return image_of(height, width, static_cast<int>(color.size()), [&](int, int, int c) { return color[c]; });
}

struct JpegOptions {
  bool progressive = false;
  int orientation = 0;  // 0: no EXIF
  J_COLOR_SPACE stored = JCS_UNKNOWN;
  int across = 0, down = 0;  // pixels to one level of colour; 0: libjpeg's choice
  bool arithmetic = false;
  bool separate = false;  // a scan for each colour, all of sampling factors that one scan cannot hold
};

inline std::string jpeg_of(const Image& image, const JpegOptions& options = {}) {
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
  if (options.across) {
    info.comp_info[0].h_samp_factor = options.across;
    info.comp_info[0].v_samp_factor = options.down;
  }
  const jpeg_scan_info scans[] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
  if (options.separate) {
    for (int c = 0; c < 3; ++c) info.comp_info[c].h_samp_factor = info.comp_info[c].v_samp_factor = 2;
    info.scan_info = scans;
    info.num_scans = 3;
  }
  info.arith_code = options.arithmetic;
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
inline std::string png_of(int height, int width, const std::string& rows, const PngOptions& options) {
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

inline std::string png_of(const Image& image) {
  const std::string rows(reinterpret_cast<const char*>(image.data()), image.size().bytes());
  PngOptions options;
  if (image.channels() == 1) options.color_type = SPNG_COLOR_TYPE_GRAYSCALE;
  return png_of(image.height(), image.width(), rows, options);
}

inline StoredImage stored(std::string_view bytes) { return {std::as_bytes(std::span(bytes)), {}}; }

inline Image decoded(std::string_view bytes, const DecodeOptions& options = {}) {
  Decoder decoder;
  Image image;
  decoder.open(stored(bytes), options);
  decoder.read(image);
  return image;
}

inline std::vector<int> levels(const Image& image) { return {image.data(), image.data() + image.size().bytes()}; }

/// Expects each level within `tolerance`.
inline void expect_near(const std::vector<int>& found, const std::vector<int>& expected, int tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << "at " << i;
}

inline std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

/// A frame of a GIF of 4 colours; each index is preceded by a code that clears the table, so that codes stay
/// short.
inline std::string gif_frame(int height, int width, const std::string& indices, bool interlaced = false,
                             int transparent = -1) {
  using std::string_literals::operator""s;
  std::string bits;
  const auto code = [&](int value) {
    for (int i = 0; i < 3; ++i) bits += value >> i & 1 ? '1' : '0';
  };
  for (const char index : indices) code(4), code(index);
  code(5);
  std::string data;
  for (std::size_t i = 0; i < bits.size(); i += 8) {
    int byte = 0;
    for (std::size_t b = i; b < std::min(bits.size(), i + 8); ++b) byte |= (bits[b] - '0') << (b - i);
    data += static_cast<char>(byte);
  }
  std::string frame;
  if (transparent >= 0) frame += "\x21\xF9\x04\x01\0\0"s + static_cast<char>(transparent) + "\0"s;
  frame += "\x2C\0\0\0\0"s + little(static_cast<std::uint64_t>(width), 2) +
           little(static_cast<std::uint64_t>(height), 2) + (interlaced ? "\x40"s : "\0"s) + "\2"s;
  for (std::size_t i = 0; i < data.size(); i += 255) {
    const std::string block = data.substr(i, 255);
    frame += static_cast<char>(block.size()) + block;
  }
  return frame + "\0"s;
}

/// A GIF whose colours are black, red, green and blue.
inline std::string gif_of(int height, int width, const std::string& frames) {
  using std::string_literals::operator""s;
  return "GIF89a" + little(static_cast<std::uint64_t>(width), 2) + little(static_cast<std::uint64_t>(height), 2) +
         "\x81\0\0"s + "\0\0\0\xFF\0\0\0\xFF\0\0\0\xFF"s + frames + ";";
}

inline std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

inline std::string idx_images(int count, int height, int width) {
  std::string bytes = big_endian(0x803);
  for (const int size : {count, height, width}) bytes += big_endian(static_cast<std::uint32_t>(size));
  for (int i = 0; i < count * height * width; ++i) bytes += static_cast<char>(i * 7);
  return bytes;
}

inline std::string idx_labels(const std::vector<int>& labels) {
  std::string bytes = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size()));
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

inline std::vector<int> cycle(int count, int classes) {
  std::vector<int> labels;
  for (int i = 0; i < count; ++i) labels.push_back(i % classes);
  return labels;
}

inline void write_gz(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

inline std::string real_data(const std::string& file) {
  const char* root = environment("NEURIM_DATA");
  return root ? text(root, "/", file) : "";
}

#define NEED_DATA(variable, file)               \
  const std::string variable = real_data(file); \
  if (variable.empty() || !fs::exists(variable)) GTEST_SKIP() << "NEURIM_DATA does not lead to " << file

/// `per_class` images for each class below `folder`.
inline void write_classes(const TempFolder& temp, const std::string& folder, const std::vector<std::string>& classes,
                          int per_class) {
  for (std::size_t c = 0; c < classes.size(); ++c)
    for (int i = 0; i < per_class; ++i) {
      const std::uint8_t base = static_cast<std::uint8_t>(40 * c + static_cast<std::size_t>(i));
      const Image image = plain(20 + i % 3, 24, {base, 100, 200});
      write(temp.at(text(folder, classes[c], "/", i, i % 2 ? ".png" : ".JPG")), i % 2 ? png_of(image) : jpeg_of(image));
    }
}

inline void write_idx(const TempFolder& temp, const std::vector<int>& labels) {
  write(temp.at("train-images-idx3-ubyte"), idx_images(30, 4, 5));
  write_gz(temp.at("train-labels-idx1-ubyte.gz"), idx_labels(cycle(30, 3)));
  write_gz(temp.at("t10k-images-idx3-ubyte.gz"), idx_images(6, 4, 5));
  write(temp.at("t10k-labels-idx1-ubyte"), idx_labels(labels));
}

}  // namespace neurim
