#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <limits>

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
    std::uint16_t bits = 1, samples = 1, extras = 0, orientation = 1, photometric = 0, sample_format = 1, planes = 1;
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
      unsupported_image(kFormat, sample_format == SAMPLEFORMAT_IEEEFP ? "its levels are floating-point numbers"
                                                                      : "its levels are signed or complex numbers");
    if (bits > 16) unsupported_image(kFormat, text("it has levels of ", bits, " bits"));
    if (photometric == PHOTOMETRIC_SEPARATED && samples != 4)
      unsupported_image(kFormat, text("it has ", samples, " inks or an alpha beside them"));
    gray_ = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
    const bool indexed = photometric == PHOTOMETRIC_PALETTE;
    if (samples > kMostChannels || (indexed && samples > 1))
      unsupported_image(kFormat, text("it has ", samples, " levels a pixel where its kind has fewer"));
    // Without a word on what it is, a further channel is as likely infrared or a mask as alpha.
    alpha_ = extras > 0 && extra_kinds[0] != EXTRASAMPLE_UNSPECIFIED;
    TIFFGetFieldDefaulted(file_, TIFFTAG_PLANARCONFIG, &planes);
    samples_ = samples;
    planes_ = planes;
    inverted_ = photometric == PHOTOMETRIC_MINISWHITE;
    plain_ = gray_ || photometric == PHOTOMETRIC_RGB;
    many_ = samples > (gray_ ? 2 : 4);
    if (many_ && !plain_)
      unsupported_image(kFormat, text("it has ", samples, " levels a pixel where its kind has fewer"));
    if (many_ && bits != 8 && bits != 16)
      unsupported_image(kFormat, text("it has ", samples, " levels a pixel of ", bits, " bits"));
    if (many_) check_pixels(kFormat, height, static_cast<std::int64_t>(width) * ((samples + 3) / 4));  // of 4 bytes
    // libtiff multiplies colours by alpha, but not gray.
    associated_ = alpha_ && extra_kinds[0] == EXTRASAMPLE_ASSOCALPHA;
    multiplied_ = !gray_ || !alpha_ || associated_;
    header_ = {.format = kFormat,
               .height = static_cast<int>(height),
               .width = static_cast<int>(width),
               .channels = many_                                  ? samples
                           : photometric == PHOTOMETRIC_SEPARATED ? 4
                                                                  : (gray_ ? 1 : 3) + alpha_,
               .bits = bits,
               .orientation = orientation >= 1 && orientation <= 8 ? orientation : 1};
    return header_;
  }

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    if (cut_off_) bad_image(kFormat, "it is cut off");
    if (guesses_) bad_image(kFormat, "the sizes of its strips do not fit the image");
    const bool beside = samples_ > (gray_ ? 1 : 3), wide = header_.bits == 16 && options.bits == 16;
    if (many_ || (plain_ && (wide || (options.all_channels && beside && (header_.bits == 8 || header_.bits == 16))))) {
      const bool all = many_ || options.all_channels || !beside;
      Image& samples = all ? image : rgba_;
      samples.reshape({header_.height, header_.width, samples_, wide ? 16 : 8});
      wide ? read_samples<std::uint16_t>(samples) : read_samples<std::uint8_t>(samples);
      if (!all) show_over(options.background, image);
      return part;
    }
    if (gray_ && alpha_ && (header_.bits != 8 || planes_ != PLANARCONFIG_CONTIG))
      unsupported_image(kFormat, "it is gray and has alpha that is not of 8 bits beside the gray");
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
    const std::size_t channels = image.channels();
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
  /// All samples of each pixel as they are stored, but for alpha that the colours are multiplied with: they are
  /// divided by it.
  template <class Value>
  void read_samples(Image& image) {
    damaged_ = false;
    message_[0] = 0;
    const bool tiled = TIFFIsTiled(file_);
    std::uint32_t high = 1, wide = static_cast<std::uint32_t>(header_.width);
    if (tiled && !(TIFFGetField(file_, TIFFTAG_TILEWIDTH, &wide) && TIFFGetField(file_, TIFFTAG_TILELENGTH, &high)))
      stop();
    const tmsize_t size = tiled ? TIFFTileSize(file_) : TIFFScanlineSize(file_);
    const bool apart = planes_ == PLANARCONFIG_SEPARATE;
    const std::size_t stored = apart ? 1 : static_cast<std::size_t>(samples_), bytes = header_.bits == 16 ? 2 : 1;
    if (size <= 0 || size > kMostBytes || static_cast<std::size_t>(size) < std::size_t{high} * wide * stored * bytes)
      stop();
    block_.resize(size);
    for (int sample = 0; sample < (apart ? samples_ : 1); ++sample)
      for (std::uint32_t top = 0; top < static_cast<std::uint32_t>(header_.height); top += high)
        for (std::uint32_t left = 0; left < static_cast<std::uint32_t>(header_.width); left += wide) {
          const auto plane = static_cast<std::uint16_t>(sample);
          const bool whole = tiled ? TIFFReadTile(file_, block_.data(), left, top, 0, plane) >= 0
                                   : TIFFReadScanline(file_, block_.data(), top, plane) >= 0;
          if (!whole || damaged_) stop();
          const std::uint32_t rows = std::min(high, static_cast<std::uint32_t>(header_.height) - top);
          const std::uint32_t columns = std::min(wide, static_cast<std::uint32_t>(header_.width) - left);
          for (std::uint32_t y = 0; y < rows; ++y) {
            const std::byte* from = block_.data() + std::size_t{y} * wide * stored * bytes;
            Value* to = image.values<Value>(static_cast<int>(top + y)) +
                        std::size_t{left} * static_cast<std::size_t>(samples_) + static_cast<std::size_t>(sample);
            for (std::uint32_t x = 0; x < columns; ++x, to += samples_)
              for (std::size_t s = 0; s < stored; ++s, from += bytes) to[s] = value<Value>(from, bytes);
          }
        }
    constexpr std::uint32_t most = std::numeric_limits<Value>::max();
    const int colors = gray_ ? 1 : 3;
    Value* pixel = image.values<Value>();
    for (const Value* end = pixel + image.size().values(); pixel != end; pixel += samples_) {
      if (inverted_) *pixel = static_cast<Value>(most - *pixel);
      if (!associated_) continue;
      const std::uint32_t alpha = std::max<std::uint32_t>(pixel[colors], 1);
      for (int c = 0; c < colors; ++c)
        pixel[c] = static_cast<Value>(std::min(most, (pixel[c] * most + alpha / 2) / alpha));
    }
  }

  /// A stored value of so many bytes; of 8 bits the nearest.
  template <class Value>
  static Value value(const std::byte* from, std::size_t bytes) {
    if (bytes == 1) return value_as<Value>(std::to_integer<std::uint8_t>(*from));
    std::uint16_t wide = 0;
    std::memcpy(&wide, from, sizeof wide);
    return value_as<Value>(wide);
  }

  /// The colours of the samples of 16 bits in rgba_ over the background; a further sample that is no alpha goes.
  void show_over(const std::array<std::uint8_t, 3>& background, Image& image) {
    constexpr std::uint32_t most = 65535;
    const int colors = gray_ ? 1 : 3, channels = gray_ && !alpha_ ? 1 : 3;
    image.reshape({header_.height, header_.width, channels, 16});
    const auto* from = rgba_.values<std::uint16_t>();
    auto* to = image.values<std::uint16_t>();
    for (const auto* end = from + rgba_.size().values(); from != end; from += samples_, to += channels) {
      const std::uint32_t alpha = alpha_ ? from[colors] : most;
      for (int c = 0; c < channels; ++c)
        to[c] = static_cast<std::uint16_t>(
            (from[std::min(c, colors - 1)] * alpha + background[c] * 257u * (most - alpha) + most / 2) / most);
    }
  }

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

  /// libtiff guesses where the sizes of strips do not fit the image, and does without tags, such as the
  /// palette, that lie past the end of the file; then it shows what is no image. While pixels are read, a
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
  bool plain_ = false, many_ = false;  // gray or RGB; more samples than those with alpha have
  bool inverted_ = false, associated_ = false;
  int samples_ = 1, planes_ = PLANARCONFIG_CONTIG;
  std::vector<std::byte> block_;  // a row or a tile
  ImageHeader header_;
  Image rgba_;  // or the samples
};

}  // namespace

std::unique_ptr<ImageReader> tiff_reader() { return std::make_unique<TiffReader>(); }

}  // namespace neurim
