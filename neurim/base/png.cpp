#include "neurim/base/png.h"

#include <spng.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "neurim/base/error.h"

namespace neurim {

std::string encode_png(const PngLayout& layout, std::span<const std::byte> levels, PngContent content) {
  constexpr std::uint8_t kTypes[] = {SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA,
                                     SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
  constexpr int kQuickLevel = 3;  // of zlib
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> context(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  spng_ihdr header{.width = static_cast<std::uint32_t>(layout.width),
                   .height = static_cast<std::uint32_t>(layout.height),
                   .bit_depth = static_cast<std::uint8_t>(layout.bits),
                   .color_type = kTypes[layout.channels - 1]};
  int error = context ? 0 : static_cast<int>(SPNG_EMEM);
  std::size_t size = 0;
  void* bytes = nullptr;
  if (!error) error = spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1);
  if (!error) error = spng_set_ihdr(context.get(), &header);
  if (!error && content == PngContent::drawing) {
    error = spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, kQuickLevel);
    if (!error) error = spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_DISABLE_FILTERING);
  }
  if (!error)
    error = spng_encode_image(context.get(), levels.data(), levels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  if (!error) bytes = spng_get_png_buffer(context.get(), &size, &error);
  if (error) fail(Fault::resource, "cannot encode a PNG: ", spng_strerror(error));
  const std::unique_ptr<void, decltype(&std::free)> owner(bytes, std::free);
  return {static_cast<const char*>(bytes), size};
}

}  // namespace neurim
