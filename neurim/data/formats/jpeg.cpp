#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/format.h"

// clang-format off: jpeglib.h needs <cstdio> before it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace neurim {
namespace {

constexpr std::string_view kFormat = "JPEG";
constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr int kMostScans = 500;  // a progressive file of more scans is made to waste time
// Colour of lower resolution is interpolated between neighbours; the first and last columns that are decoded
// lack one.
constexpr int kContext = 4;
constexpr int kRowsACall = 16;

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

/// libjpeg reports errors by a call that must not return; throwing through C frames is not defined
/// everywhere, so the call jumps back into `guarded`, which throws.
class JpegReader : public ImageReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { self(info)->stop(); };
    errors_.emit_message = [](j_common_ptr info, int level) { self(info)->hear(level); };
    progress_.progress_monitor = [](j_common_ptr info) { self(info)->watch(); };
    guarded([&] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_save_markers(&info_, kExifMarker, 0xFFFF);
    });
  }
  ~JpegReader() override { jpeg_destroy_decompress(&info_); }

  ImageHeader open(std::span<const std::byte> bytes) override {
    guarded([&] {
      jpeg_abort_decompress(&info_);  // the picture before may have been read in part
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&info_, TRUE);
    });
    // Where only a part is decoded, nothing else would notice that the end is missing.
    const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (content.rfind("\xFF\xD9") == content.npos) bad_image(kFormat, "it is cut off");
    return {.format = kFormat,
            .height = static_cast<int>(info_.image_height),
            .width = static_cast<int>(info_.image_width),
            .channels = info_.num_components,
            .bits = info_.data_precision,
            .orientation = orientation()};
  }

  Box read(const Box& part, const DecodeOptions&, Image& image) override {
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks                                          ? JCS_CMYK
                            : info_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE
                                                                          : JCS_RGB;
    Image& decoded = inks ? inks_ : image;
    const int bottom = part.top + part.height;
    JDIMENSION left = 0;
    guarded([&] {
      jpeg_start_decompress(&info_);
      const int whole = static_cast<int>(info_.output_width);
      if (part.width < whole) {
        left = static_cast<JDIMENSION>(std::max(0, part.left - kContext));
        JDIMENSION width =
            static_cast<JDIMENSION>(std::min(whole, part.left + part.width + kContext)) - left;
        jpeg_crop_scanline(&info_, &left, &width);  // moves left to the next border of blocks
      }
      decoded.reshape({part.height, static_cast<int>(info_.output_width), info_.output_components});
      if (part.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(part.top));
      while (static_cast<int>(info_.output_scanline) < bottom) {
        const int y = static_cast<int>(info_.output_scanline) - part.top;
        const int count = std::min(kRowsACall, part.height - y);
        JSAMPROW rows[kRowsACall];
        for (int i = 0; i < count; ++i) rows[i] = decoded.row(y + i);
        jpeg_read_scanlines(&info_, rows, static_cast<JDIMENSION>(count));
      }
      if (info_.output_scanline == info_.output_height) jpeg_finish_decompress(&info_);
    });
    if (inks) cmyk_to_rgb(inks_, info_.saw_Adobe_marker, image);
    return {0, part.left - static_cast<int>(left), part.height, part.width};
  }

 private:
  static JpegReader* self(j_common_ptr info) { return static_cast<JpegReader*>(info->client_data); }

  template <class Step>
  void guarded(const Step& step) {
    if (setjmp(back_) != 0) {
      const std::string reason = message_;
      if (errors_.msg_code == JERR_BAD_PRECISION) unsupported_image(kFormat, reason);
      bad_image(kFormat, reason);
    }
    step();
  }

  [[noreturn]] void stop() {
    if (errors_.msg_code == JERR_BAD_PRECISION)
      std::snprintf(message_, sizeof message_, "it has %d bits a level, and only 8 are read",
                    info_.data_precision);
    else
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
    errors_.msg_code = 0;
    std::snprintf(message_, sizeof message_, "it has more than %d scans", kMostScans);
    std::longjmp(back_, 1);
  }

  int orientation() const {
    for (jpeg_saved_marker_ptr marker = info_.marker_list; marker; marker = marker->next)
      if (marker->marker == kExifMarker && marker->data_length > 6 &&
          std::memcmp(marker->data, "Exif\0", 6) == 0)
        return exif_orientation(
            {reinterpret_cast<const std::byte*>(marker->data) + 6, marker->data_length - 6});
    return 1;
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_{};
  char message_[JMSG_LENGTH_MAX] = {};
  Image inks_;
};

}  // namespace

std::unique_ptr<ImageReader> jpeg_reader() { return std::make_unique<JpegReader>(); }

}  // namespace neurim
