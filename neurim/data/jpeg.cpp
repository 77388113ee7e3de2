#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/data/exif.h"
#include "neurim/data/format.h"

// clang-format off: jpeglib.h needs <cstdio> before it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace neurim {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr int kMostScans = 500;  // a progressive file of more scans is made to waste time

/// libjpeg reports errors by a call that must not return; throwing through C frames is not defined
/// everywhere, so the call jumps back into `guarded`, which throws.
class JpegReader {
 public:
  JpegReader(std::span<const std::byte> bytes, std::string_view name) : name_(name) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { self(info)->stop(); };
    errors_.emit_message = [](j_common_ptr info, int level) { self(info)->hear(level); };
    progress_.progress_monitor = [](j_common_ptr info) { self(info)->watch(); };
    guarded([&] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_save_markers(&info_, kExifMarker, 0xFFFF);
      jpeg_read_header(&info_, TRUE);
    });
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  jpeg_decompress_struct& info() { return info_; }

  int orientation() const {
    for (jpeg_saved_marker_ptr marker = info_.marker_list; marker; marker = marker->next)
      if (marker->marker == kExifMarker && marker->data_length > 6 &&
          std::memcmp(marker->data, "Exif\0", 6) == 0)
        return exif_orientation(
            {reinterpret_cast<const std::byte*>(marker->data) + 6, marker->data_length - 6});
    return 1;
  }

  /// Decodes into `pixels`, rows of info().output_width * info().output_components bytes.
  void read(Image& image) {
    guarded([&] {
      jpeg_start_decompress(&info_);
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = image.row(static_cast<int>(info_.output_scanline));
        jpeg_read_scanlines(&info_, &row, 1);
      }
      jpeg_finish_decompress(&info_);
    });
  }

 private:
  static JpegReader* self(j_common_ptr info) { return static_cast<JpegReader*>(info->client_data); }

  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(back_) != 0) {
      const std::string reason = message_;
      jpeg_destroy_decompress(&info_);  // twice is allowed, and a throwing constructor runs no destructor
      bad_image(name_, "JPEG", reason);
    }
    step();
  }

  [[noreturn]] void stop() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message_);
    std::longjmp(back_, 1);
  }

  /// A warning about the pixels means that a part of the picture is missing or wrong, so it is an error; one
  /// about stray bytes between segments is not.
  void hear(int level) {
    if (level >= 0) return;
    switch (errors_.msg_code) {
      case JWRN_EXTRANEOUS_DATA:
      case JWRN_ADOBE_XFORM:
      case JWRN_JFIF_MAJOR:
      case JWRN_BOGUS_ICC:
        return;
      default:
        stop();
    }
  }

  void watch() {
    if (info_.input_scan_number <= kMostScans) return;
    std::snprintf(message_, sizeof message_, "it has more than %d scans", kMostScans);
    std::longjmp(back_, 1);
  }

  std::string_view name_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_{};
  char message_[JMSG_LENGTH_MAX] = {};
};

/// Ink to light. Adobe's files, and only those, store inks inverted: 255 is no ink.
void cmyk_to_rgb(const Image& inks, bool inverted, Image& image) {
  const std::uint8_t flip = inverted ? 0 : 255;
  image.reshape({inks.height(), inks.width(), 3});
  const std::uint8_t* from = inks.data();
  std::uint8_t* to = image.data();
  for (const std::uint8_t* end = from + inks.size().bytes(); from != end; from += 4, to += 3)
    for (int c = 0; c < 3; ++c)
      to[c] = static_cast<std::uint8_t>(((from[c] ^ flip) * (from[3] ^ flip) + 127) / 255);
}

}  // namespace

int read_jpeg(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions&, Image& scratch,
              Image& image) {
  JpegReader reader(bytes, name);
  jpeg_decompress_struct& info = reader.info();
  const int height = static_cast<int>(info.image_height), width = static_cast<int>(info.image_width);
  check_pixels(name, "JPEG", height, width);
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  const bool gray = info.jpeg_color_space == JCS_GRAYSCALE;
  info.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
  Image& decoded = inks ? scratch : image;
  decoded.reshape({height, width, inks ? 4 : gray ? 1 : 3});
  const int orientation = reader.orientation();  // reading the pixels drops the markers
  reader.read(decoded);
  if (inks) cmyk_to_rgb(scratch, info.saw_Adobe_marker, image);
  return orientation;
}

}  // namespace neurim
