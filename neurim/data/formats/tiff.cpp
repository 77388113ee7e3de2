#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "TIFF";
constexpr tmsize_t kMostBytes = 4 * Decoder::kMostPixels;  // that libtiff may ask for at once

/// The first page.
class TiffReader : public ImageReader {
 public:
  ~TiffReader() override { close(); }

  ImageHeader open(const StoredImage& stored) override {
    close();
    bytes_ = stored.bytes;
    at_ = 0;
    message_[0] = 0;
    guesses_ = cut_off_ = damaged_ = false;
    TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMostBytes);
    TIFFOpenOptionsSetErrorHandlerExtR(options, hear, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options, hear_warning, this);
    file_ = TIFFClientOpenExt("", "rm", this, read_bytes, write_bytes, seek, no_close, size, nullptr, nullptr, options);
    TIFFOpenOptionsFree(options);
    if (!file_) stop();
    std::uint32_t width = 0, height = 0;
    std::uint16_t bits = 1, samples = 1, extras = 0, orientation = 1, photometric = 0, sample_format = 1,
                  planes = 1;
    const std::uint16_t* extra_kinds = nullptr;
    if (!TIFFGetField(file_, TIFFTAG_IMAGEWIDTH, &width) || !TIFFGetField(file_, TIFFTAG_IMAGELENGTH, &height))
      bad_image(kFormat, "it has no size");
    check_pixels(kFormat, height, width);
    TIFFGetFieldDefaulted(file_, TIFFTAG_BITSPERSAMPLE, &bits);
    TIFFGetFieldDefaulted(file_, TIFFTAG_SAMPLESPERPIXEL, &samples);
    TIFFGetFieldDefaulted(file_, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(file_, TIFFTAG_SAMPLEFORMAT, &sample_format);
    TIFFGetFieldDefaulted(file_, TIFFTAG_EXTRASAMPLES, &extras, &extra_kinds);
    if (!TIFFGetField(file_, TIFFTAG_PHOTOMETRIC, &photometric))  // what libtiff takes it for
      photometric = samples - extras == 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    if (sample_format != SAMPLEFORMAT_UINT && sample_format != SAMPLEFORMAT_VOID)
      unsupported_image(kFormat, sample_format == SAMPLEFORMAT_IEEEFP
                                     ? "its levels are floating-point numbers"
                                     : "its levels are signed or complex numbers");
    if (bits > 16) unsupported_image(kFormat, text("it has levels of ", bits, " bits"));
    if (photometric == PHOTOMETRIC_SEPARATED && samples != 4)
      unsupported_image(kFormat, text("it has ", samples, " inks or an alpha beside them"));
    gray_ = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
    const bool indexed = photometric == PHOTOMETRIC_PALETTE;
    if (samples > (indexed ? 1 : gray_ ? 2 : 4))
      unsupported_image(kFormat, text("it has ", samples, " levels a pixel where its kind has fewer"));
    // Without a word on what it is, a further level is as likely infrared or a mask as alpha.
    alpha_ = extras > 0 && extra_kinds[0] != EXTRASAMPLE_UNSPECIFIED;
    TIFFGetFieldDefaulted(file_, TIFFTAG_PLANARCONFIG, &planes);
    if (gray_ && alpha_ && (bits != 8 || planes != PLANARCONFIG_CONTIG))
      unsupported_image(kFormat, "it is gray and has alpha that is not of 8 bits beside the gray");
    // libtiff multiplies colours by alpha, but not gray.
    multiplied_ = !gray_ || !alpha_ || extra_kinds[0] == EXTRASAMPLE_ASSOCALPHA;
    header_ = {.format = kFormat,
               .height = static_cast<int>(height),
               .width = static_cast<int>(width),
               .channels = photometric == PHOTOMETRIC_SEPARATED ? 4 : (gray_ ? 1 : 3) + alpha_,
               .bits = bits,
               .orientation = orientation >= 1 && orientation <= 8 ? orientation : 1};
    return header_;
  }

  Box read(const Box& part, const DecodeOptions& options, Image& image) override {
    if (cut_off_) bad_image(kFormat, "it is cut off");
    if (guesses_) bad_image(kFormat, "the sizes of its strips do not fit the picture");
    char reason[1024] = {};
    if (!TIFFRGBAImageOK(file_, reason)) unsupported_image(kFormat, reason);
    rgba_.reshape({header_.height, header_.width, 4});
    TIFFRGBAImage converter{};
    if (!TIFFRGBAImageBegin(&converter, file_, 1, reason)) bad_image(kFormat, reason);
    converter.req_orientation = converter.orientation;  // as stored; Decoder turns it
    damaged_ = false;
    message_[0] = 0;
    const bool whole = TIFFRGBAImageGet(&converter, reinterpret_cast<std::uint32_t*>(rgba_.data()),
                                        static_cast<std::uint32_t>(header_.width),
                                        static_cast<std::uint32_t>(header_.height)) == 1;
    TIFFRGBAImageEnd(&converter);
    if (!whole || damaged_) stop();
    image.reshape({header_.height, header_.width, gray_ && !alpha_ ? 1 : 3});
    const std::size_t channels = static_cast<std::size_t>(image.channels());
    const std::uint8_t* from = rgba_.data();
    std::uint8_t* to = image.data();
    for (const std::uint8_t* end = from + rgba_.size().bytes(); from != end; from += 4, to += channels) {
      const int alpha = alpha_ ? from[3] : 255, factor = multiplied_ ? 255 : alpha;
      for (std::size_t c = 0; c < channels; ++c)
        to[c] = static_cast<std::uint8_t>(
            std::min(255, (from[c] * factor + options.background[c] * (255 - alpha) + 127) / 255));
    }
    return part;
  }

 private:
  static TiffReader* self(void* reader) { return static_cast<TiffReader*>(reader); }

  // The file as libtiff sees it: bytes in memory.
  static tmsize_t read_bytes(thandle_t reader, void* to, tmsize_t count) {
    TiffReader& me = *self(reader);
    if (me.at_ >= me.bytes_.size()) return 0;
    const std::size_t given = std::min(static_cast<std::size_t>(count), me.bytes_.size() - me.at_);
    std::memcpy(to, me.bytes_.data() + me.at_, given);
    me.at_ += given;
    return static_cast<tmsize_t>(given);
  }
  static tmsize_t write_bytes(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t seek(thandle_t reader, toff_t offset, int whence) {
    TiffReader& me = *self(reader);
    me.at_ = offset + (whence == SEEK_CUR ? me.at_ : whence == SEEK_END ? me.bytes_.size() : 0);
    return me.at_;
  }
  static int no_close(thandle_t) { return 0; }
  static toff_t size(thandle_t reader) { return self(reader)->bytes_.size(); }

  static int hear(TIFF*, void* reader, const char*, const char* format, va_list arguments) {
    std::vsnprintf(self(reader)->message_, sizeof message_, format, arguments);
    return 1;
  }

  /// libtiff guesses where the sizes of strips do not fit the picture, and does without tags, such as the
  /// palette, that lie past the end of the file; then it shows what is no picture. While pixels are read, a
  /// warning means that some are missing or wrong, except for two that tell of odd writers.
  static int hear_warning(TIFF*, void* reader, const char*, const char* format, va_list arguments) {
    TiffReader& me = *self(reader);
    if (std::strstr(format, "Bogus")) me.guesses_ = true;
    if (std::strstr(format, "IO error")) me.cut_off_ = true;
    char message[sizeof message_];
    std::vsnprintf(message, sizeof message, format, arguments);
    if (std::strstr(message, "Old-style LZW") || std::strstr(message, "extraneous bytes")) return 1;
    me.damaged_ = true;
    std::memcpy(me.message_, message, sizeof message);
    return 1;
  }

  void close() {
    if (file_) TIFFClose(file_);
    file_ = nullptr;
  }

  [[noreturn]] void stop() const {
    std::string_view reason = message_;
    if (reason.starts_with(": ")) reason.remove_prefix(2);  // after the file's name, which is empty
    bad_image(kFormat, reason.empty() ? "it is damaged" : reason);
  }

  TIFF* file_ = nullptr;
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  char message_[256] = {};
  bool guesses_ = false, cut_off_ = false;
  bool damaged_ = false;  // a warning was heard
  bool gray_ = false, alpha_ = false, multiplied_ = true;
  ImageHeader header_;
  Image rgba_;
};

}  // namespace

std::unique_ptr<ImageReader> tiff_reader() { return std::make_unique<TiffReader>(); }

}  // namespace neurim
