#include <algorithm>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/data/formats/jpeg_rows.h"
#include "neurim/data/formats/libjpeg.h"

namespace neurim {
namespace {

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
    for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(((from[c] ^ flip) * (from[3] ^ flip) + 127) / 255);
}

class JpegReader : public ImageReader {
 public:
  JpegReader() {
    jpeg_.attach(info_);
    jpeg_.guarded([&] {
      jpeg_create_decompress(&info_);
      jpeg_.watch_scans(info_);
      jpeg_save_markers(&info_, LibJpeg::kExifMarker, 0xFFFF);
    });
  }
  ~JpegReader() override { jpeg_destroy_decompress(&info_); }

  ImageHeader open(const StoredImage& stored) override {
    stored_ = stored;
    read_header(stored.bytes);
    // Of the pixels, not of a thumbnail before them.
    const std::string_view pixels(reinterpret_cast<const char*>(info_.src->next_input_byte),
                                  info_.src->bytes_in_buffer);
    has_end_ = pixels.rfind("\xFF\xD9") != pixels.npos;
    return {.format = LibJpeg::kFormat,
            .height = static_cast<int>(info_.image_height),
            .width = static_cast<int>(info_.image_width),
            .channels = info_.num_components,
            .bits = info_.data_precision,
            .orientation = orientation_of(info_)};
  }

  int most_reduction() const override { return DCTSIZE; }  // a value for each block

  Box read(const Box& part, int reduction, const DecodeOptions&, Image& image) override {
    // Where only a part is decoded, nothing else would notice that the end is missing.
    if (!has_end_) bad_image(LibJpeg::kFormat, "it is cut off");
    if (stored_.rows.empty()) {
      const Box found = decode(part, reduction, image);
      // Of several scans all were read before the first row.
      has_rest_ = info_.output_scanline < info_.output_height && !jpeg_has_multiple_scans(&info_);
      return found;
    }
    // Of an image with an index only the rows of blocks that show in the part are looked at, and their
    // neighbours, from which colour is interpolated.
    const int height = static_cast<int>(info_.image_height), block = static_cast<int>(stored_.block_height);
    const int first = std::max(part.top / block - 1, 0);
    const int last = std::min((part.top + part.height - 1) / block + 2, static_cast<int>(stored_.rows.size()) - 1);
    if (first >= last) bad_image(LibJpeg::kFormat, "its row index is of another image");
    cut_jpeg_rows(stored_.bytes, stored_.rows, stored_.block_height, height, first, last, cut_);
    read_header(cut_);
    return decode({part.top - first * block, part.left, part.height, part.width}, reduction, image);
  }

  /// Blocks that are skipped lose their codes but are not transformed. libjpeg stops where it is to skip all that
  /// remains, so the last row is read.
  void check_rest() override {
    if (!std::exchange(has_rest_, false)) return;
    line_.resize(static_cast<std::size_t>(info_.output_width) * static_cast<std::size_t>(info_.output_components));
    jpeg_.guarded([&] {
      const JDIMENSION between = info_.output_height - 1 - info_.output_scanline;
      if (between > 0) jpeg_skip_scanlines(&info_, between);
      JSAMPROW row = line_.data();
      jpeg_read_scanlines(&info_, &row, 1);
      jpeg_finish_decompress(&info_);
    });
  }

 private:
  void read_header(std::span<const std::byte> bytes) {
    has_rest_ = false;
    jpeg_.guarded([&] {
      jpeg_abort_decompress(&info_);  // the image before may have been read in part
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_read_header(&info_, TRUE);
    });
  }

  Box decode(const Box& part, int reduction, Image& image) {
    const Box wanted = reduced(part, reduction);
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : info_.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(reduction);
    Image& decoded = inks ? inks_ : image;
    JDIMENSION left = 0;
    jpeg_.guarded([&] {
      jpeg_start_decompress(&info_);
      const int whole = static_cast<int>(info_.output_width);
      if (wanted.width < whole) {
        left = static_cast<JDIMENSION>(std::max(0, wanted.left - kContext));
        JDIMENSION width = static_cast<JDIMENSION>(std::min(whole, wanted.left + wanted.width + kContext)) - left;
        jpeg_crop_scanline(&info_, &left, &width);  // moves left to the next border of blocks
      }
      decoded.reshape({wanted.height, static_cast<int>(info_.output_width), info_.output_components});
      if (wanted.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(wanted.top));
      while (static_cast<int>(info_.output_scanline) < wanted.top + wanted.height) {
        const int y = static_cast<int>(info_.output_scanline) - wanted.top;
        const int count = std::min(kRowsACall, wanted.height - y);
        JSAMPROW rows[kRowsACall];
        for (int i = 0; i < count; ++i) rows[i] = decoded.row(y + i);
        jpeg_read_scanlines(&info_, rows, static_cast<JDIMENSION>(count));
      }
      if (info_.output_scanline == info_.output_height) jpeg_finish_decompress(&info_);
    });
    if (inks) cmyk_to_rgb(inks_, info_.saw_Adobe_marker, image);
    return {part.top - wanted.top * reduction, part.left - static_cast<int>(left) * reduction, part.height, part.width};
  }

  LibJpeg jpeg_;
  jpeg_decompress_struct info_{};
  StoredImage stored_;
  bool has_end_ = false;
  bool has_rest_ = false;  // after what was read
  Image inks_;
  std::vector<std::uint8_t> line_;
  std::vector<std::byte> cut_;
};

}  // namespace

std::unique_ptr<ImageReader> jpeg_reader() { return std::make_unique<JpegReader>(); }

}  // namespace neurim
