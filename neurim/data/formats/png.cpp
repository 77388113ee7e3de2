#include "neurim/base/png.h"

#include <spng.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>

#include "neurim/data/encode.h"
#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "PNG";
constexpr std::size_t kMostChunkBytes = 4u << 20;  // of text and colour profiles, which decompress to any size

/// What a zlib stream holds, up to kMostChunkBytes; "" where it is damaged.
std::string inflated(std::string_view stream) {
  std::string content(kMostChunkBytes, '\0');
  uLongf size = content.size();
  if (uncompress(reinterpret_cast<Bytef*>(content.data()), &size, reinterpret_cast<const Bytef*>(stream.data()),
                 stream.size()) != Z_OK)
    return "";
  return content.substr(0, size);
}

/// The text of a tEXt, zTXt or iTXt chunk with one of ImageMagick's keywords for EXIF; "" of others.
std::string exif_profile(std::string_view type, std::string_view chunk) {
  const std::size_t end = std::min(chunk.find('\0'), chunk.size());
  const std::string_view keyword = chunk.substr(0, end);
  if (keyword != "Raw profile type exif" && keyword != "Raw profile type APP1") return "";
  std::string_view rest = chunk.substr(std::min(end + 1, chunk.size()));
  if (type == "tEXt") return std::string(rest);
  if (type == "zTXt") return rest.empty() ? "" : inflated(rest.substr(1));
  // iTXt: whether it is compressed, how, a language and a translated keyword, both ending with a zero.
  const std::size_t language = rest.size() < 2 ? rest.npos : rest.find('\0', 2);
  const std::size_t translated = language == rest.npos ? rest.npos : rest.find('\0', language + 1);
  if (translated == rest.npos) return "";
  return rest[0] ? inflated(rest.substr(translated + 1)) : std::string(rest.substr(translated + 1));
}

/// The bytes of such a text: a line with a name, one with their number, and the bytes in hexadecimal digits.
std::vector<std::byte> profile_bytes(std::string_view profile) {
  const auto word = [&] {
    while (!profile.empty() && std::isspace(static_cast<unsigned char>(profile[0]))) profile.remove_prefix(1);
    std::size_t size = 0;
    while (size < profile.size() && !std::isspace(static_cast<unsigned char>(profile[size]))) ++size;
    const std::string_view found = profile.substr(0, size);
    profile.remove_prefix(size);
    return found;
  };
  word(), word();
  std::vector<std::byte> bytes;
  for (std::string_view digits = word(); !digits.empty(); digits = word())
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
      std::uint8_t byte = 0;
      std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
      bytes.push_back(static_cast<std::byte>(byte));
    }
  return bytes;
}

/// What the file's eXIf chunk says, wherever it stands, or else the profile that ImageMagick wrote as text.
int orientation_of(std::span<const std::byte> file) {
  constexpr std::size_t kSignature = 8, kAround = 12;  // length and type before the content, a CRC after it
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(file[at + i]);
    return value;
  };
  std::optional<int> in_text;
  for (std::size_t at = kSignature; file.size() - at >= kAround;) {
    const std::size_t size = number(at);
    if (size > file.size() - at - kAround) break;
    const std::string_view type(reinterpret_cast<const char*>(file.data()) + at + 4, 4);
    const std::string_view content(type.data() + 4, size);
    if (type == "eXIf" || (!in_text && (type == "tEXt" || type == "zTXt" || type == "iTXt"))) {
      const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(type.data()), size + 4);
      const bool sound = crc == number(at + 8 + size);
      if (sound && type == "eXIf") return exif_orientation(file.subspan(at + 8, size));
      const std::string profile = sound && type != "eXIf" ? exif_profile(type, content) : "";
      if (!profile.empty()) in_text = exif_orientation(profile_bytes(profile));
    }
    at += kAround + size;
  }
  return in_text.value_or(1);
}

class PngReader : public ImageReader {
 public:
  ImageHeader open(const StoredImage& stored) override {
    context_.reset(spng_ctx_new(0));
    check(context_ ? 0 : SPNG_EMEM);
    check(spng_set_chunk_limits(context_.get(), kMostChunkBytes, kMostChunkBytes));
    check(spng_set_png_buffer(context_.get(), stored.bytes.data(), stored.bytes.size()));
    spng_ihdr header{};
    check(spng_get_ihdr(context_.get(), &header));
    check_pixels(kFormat, header.height, header.width);  // before the chunks up to the pixels are looked at
    gray_ = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
    spng_trns transparent{};
    // This reads all up to the pixels; what is wrong there is told when they are read.
    const int found = spng_get_trns(context_.get(), &transparent);
    damage_ = found == SPNG_ECHUNKAVAIL ? 0 : found;
    alpha_ = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
             header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA || found == 0;
    header_ = {.format = kFormat,
               .height = static_cast<int>(header.height),
               .width = static_cast<int>(header.width),
               .channels = (gray_ ? 1 : 3) + alpha_,
               .bits = header.bit_depth,
               .orientation = orientation_of(stored.bytes)};
    interlaced_ = header.interlace_method != SPNG_INTERLACE_NONE;
    return header_;
  }

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    check(damage_);
    const auto& background = options.background;
    const bool keeps = alpha_ && options.all_channels;
    const bool gray = gray_ && (!alpha_ || keeps || (background[0] == background[1] && background[1] == background[2]));
    const bool wide = header_.bits == 16 && options.bits == 16;
    const ImageSize size{header_.height, header_.width, (gray ? 1 : 3) + keeps, wide ? 16 : 8};
    image.reshape(size);
    // libspng expands gray of 16 bits to RGBA and RGB only; there the first channel, or its upper byte, is the gray.
    if (!wide && !alpha_ && !(gray && header_.bits == 16)) {
      check(spng_decode_image(context_.get(), image.data(), size.bytes(), gray ? SPNG_FMT_G8 : SPNG_FMT_RGB8, 0));
      return part;
    }
    const int format = wide ? SPNG_FMT_RGBA16 : SPNG_FMT_RGBA8, flags = alpha_ ? SPNG_DECODE_TRNS : 0;
    if (interlaced_) {  // each row is put together from several passes
      rgba_.reshape({size.height, size.width, 4, size.bits});
      check(spng_decode_image(context_.get(), rgba_.data(), rgba_.size().bytes(), format, flags));
      blend(rgba_, background, image);
      return part;
    }
    rgba_.reshape({1, size.width, 4, size.bits});
    check(spng_decode_image(context_.get(), nullptr, 0, format, flags | SPNG_DECODE_PROGRESSIVE));
    for (int y = 0; y < size.height; ++y) {
      const int code = spng_decode_row(context_.get(), rgba_.data(), rgba_.size().bytes());
      check(code == SPNG_EOI && y == size.height - 1 ? 0 : code);
      blend(rgba_, background, image, y, 0);
    }
    return part;
  }

 private:
  static void check(int code) {
    if (code != 0) bad_image(kFormat, spng_strerror(code));
  }

  std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context_{nullptr, spng_ctx_free};
  ImageHeader header_;
  int damage_ = 0;
  bool gray_ = false, alpha_ = false, interlaced_ = false;
  Image rgba_;  // one row of it, or all of an interlaced one
};

}  // namespace

std::string encode_png(const Image& image) {
  if (image.channels() > 4)
    fail(Fault::data, "an image of ", image.channels(), " channels is no PNG, which has 1 to 4; pack it instead");
  return encode_png({image.height(), image.width(), image.channels(), image.size().bits},
                    std::as_bytes(std::span(image.data(), image.size().bytes())), PngContent::photo);
}

std::unique_ptr<ImageReader> png_reader() { return std::make_unique<PngReader>(); }

}  // namespace neurim
