#include <spng.h>

#include <memory>

#include "neurim/data/exif.h"
#include "neurim/data/format.h"

namespace neurim {
namespace {

constexpr std::size_t kMostChunkBytes = 64u
                                        << 20;  // of text and colour profiles, which decompress to any size

void blend(const Image& rgba, const std::array<std::uint8_t, 3>& background, Image& image) {
  const std::size_t channels = static_cast<std::size_t>(image.channels());
  const std::uint8_t* from = rgba.data();
  std::uint8_t* to = image.data();
  for (const std::uint8_t* end = from + rgba.size().bytes(); from != end; from += 4, to += channels)
    for (std::size_t c = 0; c < channels; ++c)
      to[c] = static_cast<std::uint8_t>((from[c] * from[3] + background[c] * (255 - from[3]) + 127) / 255);
}

}  // namespace

int read_png(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions& options,
             Image& scratch, Image& image) {
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(0), spng_ctx_free);
  const auto check = [&](int code) {
    if (code != 0) bad_image(name, "PNG", spng_strerror(code));
  };
  check(context ? 0 : SPNG_EMEM);
  check(spng_set_chunk_limits(context.get(), kMostChunkBytes, kMostChunkBytes));
  check(spng_set_png_buffer(context.get(), bytes.data(), bytes.size()));
  spng_ihdr header{};
  check(spng_get_ihdr(context.get(), &header));
  check_pixels(name, "PNG", header.height, header.width);

  spng_trns transparent{};
  const bool gray_type =
      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  const bool alpha = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                     header.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ||
                     spng_get_trns(context.get(), &transparent) == 0;
  const auto& background = options.background;
  const bool gray =
      gray_type && (!alpha || (background[0] == background[1] && background[1] == background[2]));
  const ImageSize size{static_cast<int>(header.height), static_cast<int>(header.width), gray ? 1 : 3};
  image.reshape(size);
  // libspng expands gray of 16 bits to RGBA and RGB only; there the upper byte of the first channel is the
  // gray.
  const bool direct = !alpha && !(gray && header.bit_depth == 16);
  if (direct) {
    check(
        spng_decode_image(context.get(), image.data(), size.bytes(), gray ? SPNG_FMT_G8 : SPNG_FMT_RGB8, 0));
  } else {
    scratch.reshape({size.height, size.width, 4});
    check(spng_decode_image(context.get(), scratch.data(), scratch.size().bytes(), SPNG_FMT_RGBA8,
                            alpha ? SPNG_DECODE_TRNS : 0));
    blend(scratch, background, image);
  }
  spng_exif exif{};
  if (spng_get_exif(context.get(), &exif) != 0) return 1;
  return exif_orientation({reinterpret_cast<const std::byte*>(exif.data), exif.length});
}

}  // namespace neurim
