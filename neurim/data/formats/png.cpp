#include <spng.h>

#include <cstdlib>

#include "neurim/data/encode.h"
#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "PNG";
constexpr std::size_t kMostChunkBytes = 4u << 20;  // of text and colour profiles, which decompress to any size

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
    gray_ = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
            header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
    spng_trns transparent{};
    // This reads all up to the pixels; what is wrong there is told when they are read.
    const int found = spng_get_trns(context_.get(), &transparent);
    damage_ = found == SPNG_ECHUNKAVAIL ? 0 : found;
    alpha_ = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
             header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA || found == 0;
    spng_exif exif{};
    const bool has_exif = spng_get_exif(context_.get(), &exif) == 0;
    header_ = {.format = kFormat,
               .height = static_cast<int>(header.height),
               .width = static_cast<int>(header.width),
               .channels = (gray_ ? 1 : 3) + alpha_,
               .bits = header.bit_depth,
               .orientation =
                   has_exif ? exif_orientation({reinterpret_cast<const std::byte*>(exif.data), exif.length})
                            : 1};
    return header_;
  }

  Box read(const Box& part, const DecodeOptions& options, Image& image) override {
    check(damage_);
    const auto& background = options.background;
    const bool keeps = alpha_ && options.all_channels;
    const bool gray =
        gray_ && (!alpha_ || keeps || (background[0] == background[1] && background[1] == background[2]));
    const bool wide = header_.bits == 16 && options.bits == 16;
    const ImageSize size{header_.height, header_.width, (gray ? 1 : 3) + keeps, wide ? 16 : 8};
    image.reshape(size);
    // libspng expands gray of 16 bits to RGBA and RGB only; there the first channel, or its upper byte, is the gray.
    if (!wide && !alpha_ && !(gray && header_.bits == 16)) {
      check(spng_decode_image(context_.get(), image.data(), size.bytes(), gray ? SPNG_FMT_G8 : SPNG_FMT_RGB8,
                              0));
    } else {
      rgba_.reshape({size.height, size.width, 4, size.bits});
      check(spng_decode_image(context_.get(), rgba_.data(), rgba_.size().bytes(),
                              wide ? SPNG_FMT_RGBA16 : SPNG_FMT_RGBA8, alpha_ ? SPNG_DECODE_TRNS : 0));
      blend(rgba_, background, image);
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
  bool gray_ = false, alpha_ = false;
  Image rgba_;
};

}  // namespace

std::string encode_png(const Image& image) {
  constexpr std::uint8_t kTypes[] = {SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA,
                                     SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
  if (image.channels() > 4)
    fail(Fault::data, "a picture of ", image.channels(), " channels is no PNG, which has 1 to 4; pack it instead");
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  spng_ihdr header{.width = static_cast<std::uint32_t>(image.width()),
                   .height = static_cast<std::uint32_t>(image.height()),
                   .bit_depth = static_cast<std::uint8_t>(image.size().bits),
                   .color_type = kTypes[image.channels() - 1]};
  int error = context ? 0 : static_cast<int>(SPNG_EMEM);
  std::size_t size = 0;
  void* bytes = nullptr;
  if (!error) error = spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  if (!error) error = spng_set_ihdr(context.get(), &header);
  if (!error)
    error = spng_encode_image(context.get(), image.data(), image.size().bytes(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  if (!error) bytes = spng_get_png_buffer(context.get(), &size, &error);
  if (error) fail(Fault::resource, "cannot encode a PNG: ", spng_strerror(error));
  const std::unique_ptr<void, decltype(&std::free)> owner(bytes, std::free);
  return {static_cast<const char*>(bytes), size};
}

std::unique_ptr<ImageReader> png_reader() { return std::make_unique<PngReader>(); }

}  // namespace neurim
