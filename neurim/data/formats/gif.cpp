// GIF87a and GIF89a (CompuServe, "Graphics Interchange Format Version 89a"). Own code: giflib lets codes pass that
// stand for nothing yet, and with them damage, and it refuses files of large codes that other programs show.
#include <algorithm>
#include <array>

#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "GIF";
constexpr int kMostBits = 12, kCodes = 1 << kMostBits;

/// The first frame on its canvas.
class GifReader : public ImageReader {
 public:
  ImageHeader open(const StoredImage& stored) override {
    rest_ = stored.bytes.subspan(6);
    transparent_ = -1;
    const int screen_width = number(2), screen_height = number(2), flags = number(1);
    number(2);  // of the background's colour, which nothing shows, and of the shape of pixels
    global_ = palette(flags);
    seek_frame();
    left_ = number(2), top_ = number(2), width_ = number(2), height_ = number(2);
    frame_flags_ = number(1);
    local_ = palette(frame_flags_);
    check_pixels(kFormat, height_, width_);
    // Writers that state too small a canvas mean the frame to be seen whole.
    header_ = {.format = kFormat,
               .height = std::max(screen_height, top_ + height_),
               .width = std::max(screen_width, left_ + width_),
               .channels = transparent_ >= 0 ? 4 : 3};
    return header_;
  }

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    image.reshape({header_.height, header_.width, transparent_ >= 0 && options.all_channels ? 4 : 3});
    fill_canvas(options.background, image);
    unpack(static_cast<std::size_t>(height_) * static_cast<std::size_t>(width_));
    const std::uint16_t* line = indices_.data();
    const auto draw = [&](int y) {
      draw_line(line, y, image);
      line += width_;
    };
    const bool interlaced = frame_flags_ & 0x40;
    if (!interlaced) {
      for (int y = 0; y < height_; ++y) draw(y);
    } else {  // every eighth line, those between, … (appendix E)
      constexpr std::pair<int, int> kPasses[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
      for (const auto& [first, step] : kPasses)
        for (int y = first; y < height_; y += step) draw(y);
    }
    return part;
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (rest_.size() < size) bad_image(kFormat, "it is cut off");
    const std::span<const std::byte> taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  int number(std::size_t width) {  // little-endian
    const std::span<const std::byte> bytes = take(width);
    return std::to_integer<int>(bytes[0]) | (width > 1 ? std::to_integer<int>(bytes[1]) << 8 : 0);
  }

  std::span<const std::byte> palette(int flags) {
    return flags & 0x80 ? take(std::size_t{3} * (2u << (flags & 7))) : std::span<const std::byte>();
  }

  /// Reads up to the description of the first frame.
  void seek_frame() {
    constexpr int kExtension = 0x21, kFrame = 0x2C, kTrailer = 0x3B, kControl = 0xF9;
    for (;;) {
      const int kind = number(1);
      if (kind == kFrame) return;
      if (kind == kTrailer) bad_image(kFormat, "it holds no image");
      if (kind != kExtension) bad_image(kFormat, "what follows its header is damaged");
      const int label = number(1);
      while (const int size = number(1)) {
        const std::span<const std::byte> block = take(size);
        if (label == kControl && size == 4 && (std::to_integer<int>(block[0]) & 1))
          transparent_ = std::to_integer<int>(block[3]);
      }
    }
  }

  /// The next code of so many bits; they lie in blocks of up to 255 bytes, lowest bits first.
  int next_code(int width) {
    for (; bits_ < width; bits_ += 8) {
      if (block_ == 0) block_ = number(1);
      if (block_ == 0) bad_image(kFormat, "its data end too early");
      held_ |= static_cast<std::uint32_t>(number(1)) << bits_;
      --block_;
    }
    const int code = static_cast<int>(held_ & ((1u << width) - 1));
    held_ >>= width;
    bits_ -= width;
    return code;
  }

  /// Unpacks the frame's pixels (appendix F).
  void unpack(std::size_t pixels) {
    const int pixel_bits = number(1);
    if (pixel_bits < 1 || pixel_bits >= kMostBits) bad_image(kFormat, "its data are damaged");
    const int clear = 1 << pixel_bits, end = clear + 1;
    int next = end + 1, width = pixel_bits + 1;
    held_ = 0;
    bits_ = block_ = 0;
    // A code stands for the pixels of an older one and one more, which lie together where they were written
    // first.
    String before;
    indices_.clear();
    while (indices_.size() < pixels) {
      const int code = next_code(width);
      if (code == end) bad_image(kFormat, "its data end too early");
      if (code == clear) {
        next = end + 1;
        width = pixel_bits + 1;
        before = {};
        continue;
      }
      if (code >= (before.size ? next + 1 : clear)) bad_image(kFormat, "its data are damaged");
      const String longer{before.begin, before.size + 1};
      const auto begin = static_cast<std::uint32_t>(indices_.size());
      if (code < clear) {
        indices_.push_back(static_cast<std::uint16_t>(code));
      } else {
        const String from = code == next ? longer : strings_[code];
        for (std::uint32_t i = 0; i < from.size; ++i) indices_.push_back(indices_[from.begin + i]);
      }
      if (before.size && next < kCodes) strings_[next++] = longer;
      if (next == 1 << width && width < kMostBits) ++width;
      before = {begin, static_cast<std::uint32_t>(indices_.size()) - begin};
    }
  }

  void draw_line(const std::uint16_t* line, int y, Image& image) const {
    const std::span<const std::byte> colors = local_.empty() ? global_ : local_;
    const int channels = image.channels();
    std::uint8_t* to = image.row(top_ + y) + left_ * channels;
    for (const std::uint16_t index : std::span(line, static_cast<std::size_t>(width_))) {
      if (index != transparent_) {
        if (index * 3u >= colors.size()) bad_image(kFormat, "a colour is outside of its palette");
        for (std::size_t c = 0; c < 3; ++c) to[c] = std::to_integer<std::uint8_t>(colors[index * 3u + c]);
        if (channels == 4) to[3] = 255;
      }
      to += channels;
    }
  }

  struct String {
    std::uint32_t begin = 0, size = 0;  // in indices_
  };

  std::span<const std::byte> rest_;            // what was not read yet
  std::span<const std::byte> global_, local_;  // palettes: red, green, blue
  int transparent_ = -1;                       // the index, or -1
  int left_ = 0, top_ = 0, width_ = 0, height_ = 0, frame_flags_ = 0;
  ImageHeader header_;
  std::vector<std::uint16_t> indices_;  // of the frame's pixels in the palette
  std::array<String, kCodes> strings_;  // what each code stands for
  std::uint32_t held_ = 0;              // bits of codes that were read,
  int bits_ = 0;                        // how many those are,
  int block_ = 0;                       // and the bytes left in the block
};

}  // namespace

std::unique_ptr<ImageReader> gif_reader() { return std::make_unique<GifReader>(); }

}  // namespace neurim
