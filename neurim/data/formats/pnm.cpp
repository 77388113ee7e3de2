// Netpbm's bitmaps, graymaps and pixmaps, plain and raw (netpbm.sourceforge.net/doc/pbm.html, pgm, ppm).
#include <algorithm>
#include <cctype>
#include <limits>

#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "PNM";

class PnmReader : public ImageReader {
 public:
  ImageHeader open(const StoredImage& stored) override {
    bytes_ = stored.bytes;
    at_ = 2;
    const int kind = std::to_integer<int>(bytes_[1]) - '0';  // 1 to 3 plain, 4 to 6 raw: bits, gray, colour
    plain_ = kind <= 3;
    bitmap_ = kind % 3 == 1;
    const std::int64_t width = number(), height = number();
    most_ = bitmap_ ? 1 : number();
    if (most_ < 1 || most_ > 65535) bad_image(kFormat, "its largest level is not 1 to 65535");
    if (peek() >= 0 && !std::isspace(peek())) bad_image(kFormat, "no blank ends its header");
    ++at_;
    check_pixels(kFormat, height, width);
    header_ = {.format = kFormat,
               .height = static_cast<int>(height),
               .width = static_cast<int>(width),
               .channels = kind % 3 == 0 ? 3 : 1,
               .bits = bitmap_       ? 1
                       : most_ > 255 ? 16
                                     : 8};
    return header_;
  }

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    const std::size_t row_values = header_.width * header_.channels;
    // A value takes a byte at least, a bit of a raw bitmap an eighth. Before memory is taken for them.
    const std::size_t row_bytes = bitmap_ && !plain_ ? (row_values + 7) / 8 : row_values;
    if (at_ > bytes_.size() || (bytes_.size() - at_) / row_bytes < static_cast<std::size_t>(header_.height))
      bad_image(kFormat, "it is cut off");
    const bool wide = header_.bits == 16 && options.bits == 16;
    image.reshape({header_.height, header_.width, header_.channels, wide ? 16 : 8});
    for (int y = 0; y < header_.height; ++y)
      wide ? read_row(image.values<std::uint16_t>(y), row_values, row_bytes)
           : read_row(image.row(y), row_values, row_bytes);
    return part;
  }

 private:
  template <class Value>
  void read_row(Value* row, std::size_t row_values, std::size_t row_bytes) {
    if (plain_) {
      for (std::size_t i = 0; i < row_values; ++i) row[i] = bitmap_ ? black(bit()) : value<Value>(number());
    } else if (bitmap_) {
      const std::span<const std::byte> bits = take(row_bytes);
      for (std::size_t i = 0; i < row_values; ++i) row[i] = black(std::to_integer<int>(bits[i / 8]) >> (7 - i % 8) & 1);
    } else {
      const std::size_t width = most_ > 255 ? 2 : 1;
      const std::span<const std::byte> values = take(row_values * width);
      for (std::size_t i = 0; i < row_values; ++i)
        row[i] = value<Value>(width == 1
                                  ? std::to_integer<int>(values[i])
                                  : std::to_integer<int>(values[2 * i]) << 8 | std::to_integer<int>(values[2 * i + 1]));
    }
  }

  static std::uint8_t black(int bit) { return bit ? 0 : 255; }
  template <class Value>
  Value value(std::int64_t number) const {
    if (number > most_) bad_image(kFormat, "a level is above the largest that it states");
    return static_cast<Value>((number * std::numeric_limits<Value>::max() + most_ / 2) / most_);
  }

  std::span<const std::byte> take(std::size_t size) {
    if (at_ > bytes_.size() || bytes_.size() - at_ < size) bad_image(kFormat, "it is cut off");
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

  int peek() const { return at_ < bytes_.size() ? std::to_integer<int>(bytes_[at_]) : -1; }

  /// Past blanks and comments, which run from '#' to the end of the line.
  void skip() {
    for (;; ++at_) {
      if (peek() == '#')
        while (peek() != '\n' && peek() != '\r' && peek() >= 0) ++at_;
      if (peek() < 0 || !std::isspace(peek())) return;
    }
  }

  int bit() {  // plain bitmaps need no blanks between their digits
    skip();
    if (peek() != '0' && peek() != '1') bad_image(kFormat, "it is cut off or holds no digit where one belongs");
    return std::to_integer<int>(bytes_[at_++]) - '0';
  }

  std::int64_t number() {
    skip();
    if (peek() < 0 || !std::isdigit(peek())) bad_image(kFormat, "it is cut off or holds no number where one belongs");
    std::int64_t value = 0;
    for (; peek() >= 0 && std::isdigit(peek()); ++at_)
      value = std::min<std::int64_t>(value * 10 + peek() - '0', 1 << 30);
    return value;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool plain_ = false, bitmap_ = false;
  std::int64_t most_ = 255;  // the value that is white
  ImageHeader header_;
};

}  // namespace

std::unique_ptr<ImageReader> pnm_reader() { return std::make_unique<PnmReader>(); }

}  // namespace neurim
