// Windows and OS/2 bitmaps (Microsoft, "Bitmap Storage": BITMAPCOREHEADER to BITMAPV5HEADER).
#include <algorithm>
#include <array>
#include <utility>

#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "BMP";

enum Compression : std::uint32_t { kPlain = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

/// Which bits of a pixel are red, green, blue and alpha.
using Masks = std::array<std::uint32_t, 4>;

// The layouts that programs write. Alpha of 0: there is none.
constexpr Masks k555{0x7C00, 0x3E0, 0x1F, 0}, k565{0xF800, 0x7E0, 0x1F, 0};
constexpr Masks k888{0xFF0000, 0xFF00, 0xFF, 0};
constexpr Masks kOf32[] = {k888,
                           {0xFF0000, 0xFF00, 0xFF, 0xFF000000},
                           {0xFF, 0xFF00, 0xFF0000, 0xFF000000},
                           {0xFF000000, 0xFF0000, 0xFF00, 0},
                           {0xFF000000, 0xFF0000, 0xFF00, 0xFF}};

class BmpReader : public ImageReader {
 public:
  ImageHeader open(const StoredImage& stored) override {
    bytes_ = stored.bytes;
    const std::uint64_t info = number(14, 4);
    constexpr std::uint64_t kInfos[] = {12, 40, 52, 56, 64, 108, 124};
    if (std::find(std::begin(kInfos), std::end(kInfos), info) == std::end(kInfos))
      unsupported_image(kFormat, text("its header of ", info, " bytes is of no known kind"));
    const bool core = info == 12;
    const std::int64_t width = core ? static_cast<std::int64_t>(number(18, 2)) : signed_number(18);
    const std::int64_t height = core ? static_cast<std::int64_t>(number(20, 2)) : signed_number(22);
    top_down_ = height < 0;
    check_pixels(kFormat, top_down_ ? -height : height, width);
    depth_ = static_cast<int>(number(core ? 24 : 28, 2));
    compression_ = core ? kPlain : static_cast<std::uint32_t>(number(30, 4));
    // OS/2's numbers above 2 mean something else.
    if (compression_ > kBitFields && compression_ != kAlphaBitFields)
      unsupported_image(kFormat, text("its compression ", compression_, " is not read"));
    if (info == 64 && compression_ == kBitFields) unsupported_image(kFormat, "its Huffman compression is not read");
    fields_ = compression_ == kBitFields || compression_ == kAlphaBitFields;
    if ((compression_ == kRle8 && depth_ != 8) || (compression_ == kRle4 && depth_ != 4) || (fields_ && depth_ < 16))
      bad_image(kFormat, "its compression and its depth contradict each other");
    data_ = number(10, 4);
    if (data_ < 14 + info) bad_image(kFormat, "its pixels would lie in its header");
    if (depth_ == 1 || depth_ == 2 || depth_ == 4 || depth_ == 8)
      read_palette(14 + info, core);
    else
      read_masks(info);
    header_ = {.format = kFormat,
               .height = static_cast<int>(top_down_ ? -height : height),
               .width = static_cast<int>(width),
               .channels = masks_[3] && depth_ == 32 ? 4 : 3,
               .bits = depth_ == 16 ? 5 : 8};
    return header_;
  }

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    const bool runs = compression_ == kRle8 || compression_ == kRle4;
    if (!runs && (data_ > bytes_.size() || bytes_.size() - data_ < rows_bytes()))  // before memory is taken for them
      bad_image(kFormat, "it is cut off");
    image.reshape({header_.height, header_.width, options.all_channels ? header_.channels : 3});
    if (runs) {
      read_runs(image);
    } else if (depth_ <= 8) {
      for_each_row([&](const std::byte* row, int y) {
        for (int x = 0; x < header_.width; ++x) {
          const int bit = x * depth_;
          const int index = std::to_integer<int>(row[bit / 8]) >> (8 - depth_ - bit % 8) & ((1 << depth_) - 1);
          put(image, y, x, static_cast<std::size_t>(index));
        }
      });
    } else {
      read_pixels(options, image);
    }
    return part;
  }

 private:
  /// Little-endian; past the end the file is cut off.
  std::uint64_t number(std::uint64_t at, int width) const {
    if (at + static_cast<std::uint64_t>(width) > bytes_.size()) bad_image(kFormat, "it is cut off");
    std::uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i)
      value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at + static_cast<std::uint64_t>(i)]);
    return value;
  }
  std::int64_t signed_number(std::uint64_t at) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(number(at, 4)));
  }

  void read_palette(std::uint64_t at, bool core) {
    const std::uint64_t stated = core ? 0 : number(46, 4), most = std::uint64_t{1} << depth_;
    if (stated > 65536) bad_image(kFormat, text("it states ", stated, " colours"));
    const std::uint64_t entry = core ? 3 : 4, count = stated == 0 ? most : std::min(stated, most);
    palette_.clear();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t color = at + i * entry;
      if (data_ >= at + entry && color + entry > data_) break;  // fewer are stored than there could be
      palette_.push_back({static_cast<std::uint8_t>(number(color + 2, 1)),
                          static_cast<std::uint8_t>(number(color + 1, 1)),
                          static_cast<std::uint8_t>(number(color, 1))});
    }
    masks_ = {};
  }

  void read_masks(std::uint64_t info) {
    masks_ = depth_ == 16 ? k555 : k888;
    if (fields_) {
      for (std::size_t i = 0; i < 3; ++i) masks_[i] = static_cast<std::uint32_t>(number(54 + 4 * i, 4));
      masks_[3] = info >= 56 || compression_ == kAlphaBitFields ? static_cast<std::uint32_t>(number(66, 4)) : 0;
    }
    const bool known = depth_ == 32   ? std::find(std::begin(kOf32), std::end(kOf32), masks_) != std::end(kOf32)
                       : depth_ == 24 ? masks_ == k888
                       : depth_ == 16 ? masks_ == k555 || masks_ == k565
                                      : false;
    if (!known && fields_) unsupported_image(kFormat, "its layout of colour bits is an unusual one");
    if (!known) unsupported_image(kFormat, text("it has ", depth_, " bits a pixel"));
  }

  std::uint64_t row_bits() const {
    return static_cast<std::uint64_t>(header_.width) * static_cast<std::uint64_t>(depth_);
  }
  std::uint64_t stride() const { return (row_bits() + 31) / 32 * 4; }
  /// Of all rows; the last one need not be filled up.
  std::uint64_t rows_bytes() const {
    return stride() * static_cast<std::uint64_t>(header_.height - 1) + (row_bits() + 7) / 8;
  }

  /// Calls row(bytes, y) for the rows as they are stored, each a multiple of 4 bytes, the lowest first.
  template <class Row>
  void for_each_row(const Row& row) const {
    for (int i = 0; i < header_.height; ++i)
      row(bytes_.data() + data_ + stride() * static_cast<std::uint64_t>(i), top_down_ ? i : header_.height - 1 - i);
  }

  void put(Image& image, int y, int x, std::size_t index) const {
    if (index >= palette_.size()) bad_image(kFormat, "a colour is outside of its palette");
    std::copy(palette_[index].begin(), palette_[index].end(), image.row(y) + 3 * x);
  }

  /// The bits of a mask, as a value of 8 bits.
  static std::uint8_t value(std::uint32_t pixel, std::uint32_t mask) {
    const std::uint32_t low = mask & (~mask + 1), most = mask / low;
    return static_cast<std::uint8_t>(((pixel & mask) / low * 255 + most / 2) / most);
  }

  void read_pixels(const DecodeOptions& options, Image& image) {
    const int pixel_bytes = depth_ / 8;
    for_each_row([&](const std::byte* row, int y) {
      std::uint8_t* to = image.row(y);
      const int channels = image.channels();
      for (int x = 0; x < header_.width; ++x, row += pixel_bytes, to += channels) {
        std::uint32_t pixel = 0;
        for (int i = pixel_bytes - 1; i >= 0; --i) pixel = pixel << 8 | std::to_integer<std::uint32_t>(row[i]);
        int alpha = masks_[3] ? value(pixel, masks_[3]) : 255;
        if (channels == 4) to[3] = static_cast<std::uint8_t>(std::exchange(alpha, 255));
        for (std::size_t c = 0; c < 3; ++c)
          to[c] = static_cast<std::uint8_t>(
              (value(pixel, masks_[c]) * alpha + options.background[c] * (255 - alpha) + 127) / 255);
      }
    });
  }

  /// Run-length coding: pairs of count and colour, and escapes.
  void read_runs(Image& image) const {
    for (int y = 0; y < header_.height; ++y)
      for (int x = 0; x < header_.width; ++x) put(image, y, x, 0);
    const bool nibbles = compression_ == kRle4;
    std::uint64_t at = data_;
    std::int64_t x = 0, line = 0;  // counted from the lowest line
    const auto next = [&] { return static_cast<int>(number(at++, 1)); };
    const auto draw = [&](std::size_t index) {
      if (x < header_.width && line < header_.height)
        put(image, static_cast<int>(top_down_ ? line : header_.height - 1 - line), static_cast<int>(x), index);
      ++x;
    };
    // The last line needs no end.
    while (line < header_.height - 1 || (line == header_.height - 1 && x < header_.width)) {
      const int count = next(), code = next();
      if (count > 0) {
        for (int i = 0; i < count; ++i)
          draw(static_cast<std::size_t>(nibbles ? (i % 2 ? code & 15 : code >> 4) : code));
      } else if (code == 0) {  // the end of the line
        x = 0;
        ++line;
      } else if (code == 1) {  // of the image
        return;
      } else if (code == 2) {  // a move
        x += next();
        line += next();
      } else {  // so many colours, filled up to whole words
        int packed = 0;
        for (int i = 0; i < code; ++i) {
          if (!nibbles || i % 2 == 0) packed = next();
          draw(static_cast<std::size_t>(!nibbles ? packed : i % 2 ? packed & 15 : packed >> 4));
        }
        const int bytes = nibbles ? (code + 1) / 2 : code;
        if (bytes % 2) next();
      }
    }
  }

  std::span<const std::byte> bytes_;
  bool top_down_ = false;
  int depth_ = 0;
  std::uint32_t compression_ = kPlain;
  bool fields_ = false;     // masks are stored
  std::uint64_t data_ = 0;  // where the pixels begin
  std::vector<std::array<std::uint8_t, 3>> palette_;
  Masks masks_{};
  ImageHeader header_;
};

}  // namespace

std::unique_ptr<ImageReader> bmp_reader() { return std::make_unique<BmpReader>(); }

}  // namespace neurim
