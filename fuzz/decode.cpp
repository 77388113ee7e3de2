// A libFuzzer target: whatever the bytes are, Decoder gives an image or Error(data).
#include "neurim/data/decode.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr std::int64_t kMostPixels = 1 << 20;  // larger images take time and tell nothing more

/// What one input is decoded by; kept, as a loader's worker keeps it, so that images follow each other.
void decode(std::span<const std::byte> bytes) {
  static neurim::Decoder decoder;
  static neurim::Image image;
  try {
    const neurim::ImageHeader header = decoder.open({bytes});
    if (std::int64_t{header.height} * header.width > kMostPixels) return;
    const neurim::Box middle{header.height / 3, header.width / 3, (header.height + 2) / 3, (header.width + 2) / 3};
    const neurim::Box found = decoder.read(middle, image);
    if (found.top < 0 || found.left < 0 || found.top + middle.height > image.height() ||
        found.left + middle.width > image.width())
      std::abort();
    decoder.check_rest();
    decoder.open({bytes}, {.scaled = true});
    const int reduction = decoder.reduction(middle, 1 + middle.height / 5, 1 + middle.width / 5);
    const neurim::Box smaller = neurim::reduced(decoder.read(middle, image, reduction), reduction);
    if (smaller.top < 0 || smaller.left < 0 || smaller.top + smaller.height > image.height() ||
        smaller.left + smaller.width > image.width())
      std::abort();
    decoder.check_rest();
    decoder.open({bytes}, {.all_channels = true, .bits = 16});
    decoder.read(image);
  } catch (const neurim::Error& error) {
    if (error.fault() != neurim::Fault::data) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decode(std::as_bytes(std::span(data, size)));
  return 0;
}
