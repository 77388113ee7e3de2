// An image as a NumPy array of its own: (height, width) or (height, width, channels) of u8 or u16.
#include <algorithm>
#include <cstring>

#include "neurim/data/formats/format.h"
#include "neurim/data/sources/npy_array.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "NPY";

class NpyReader : public ImageReader {
 public:
  ImageHeader open(const StoredImage& stored) override {
    array_ = naming([] { return "cannot decode this NPY"; }, [&] { return parse_npy(bytes_in_memory(stored.bytes)); });
    const std::vector<std::int64_t>& s = array_.shape;
    if (s.size() != 2 && s.size() != 3)
      bad_image(kFormat, text("it has ", s.size(), " axes, and an image has height, width and perhaps channels"));
    if (array_.is_signed || array_.item_size > 2) bad_image(kFormat, "its elements are neither uint8 nor uint16");
    check_pixels(kFormat, s[0], s[1]);
    const std::int64_t channels = s.size() == 3 ? s[2] : 1;
    if (channels < 1 || channels > kMostChannels)
      bad_image(kFormat, text("it has ", channels, " channels, and 1 to ", kMostChannels, " are read"));
    return {.format = kFormat,
            .height = static_cast<int>(s[0]),
            .width = static_cast<int>(s[1]),
            .channels = static_cast<int>(channels),
            .bits = static_cast<int>(8 * array_.item_size)};
  }

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    const std::vector<std::int64_t>& s = array_.shape;
    const bool narrows = array_.item_size == 2 && options.bits == 8;
    image.reshape({static_cast<int>(s[0]), static_cast<int>(s[1]), s.size() == 3 ? static_cast<int>(s[2]) : 1,
                   narrows ? 8 : static_cast<int>(8 * array_.item_size)});
    if (!narrows) {
      std::memcpy(image.data(), array_.bytes.data(), array_.bytes.size());
      return part;
    }
    const auto* from = reinterpret_cast<const std::uint16_t*>(
        array_.bytes.data());  // files are little-endian, as we are
    std::transform(from, from + array_.count(), image.data(), value_as<std::uint8_t, std::uint16_t>);
    return part;
  }

 private:
  NpyArray array_;
};

}  // namespace

std::unique_ptr<ImageReader> npy_reader() { return std::make_unique<NpyReader>(); }

}  // namespace neurim
