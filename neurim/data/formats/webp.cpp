#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>

#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

constexpr std::string_view kFormat = "WebP";

class WebpReader : public ImageReader {
 public:
  ImageHeader open(const StoredImage& stored) override {
    bytes_ = {.bytes = reinterpret_cast<const std::uint8_t*>(stored.bytes.data()), .size = stored.bytes.size()};
    check(WebPGetFeatures(bytes_.bytes, bytes_.size, &features_));
    header_ = {.format = kFormat,
               .height = features_.height,
               .width = features_.width,
               .channels = features_.has_alpha ? 4 : 3,
               .orientation = orientation()};
    return header_;
  }

  Box read(const Box& part, const DecodeOptions& options, Image& image) override {
    image.reshape({header_.height, header_.width, 3});
    if (features_.has_animation) {
      read_first_frame();
    } else if (features_.has_alpha) {
      decode_into(rgba_, 4);
    } else {
      decode_into(image, 3);
      return part;
    }
    blend(rgba_, options.background, image);
    return part;
  }

 private:
  static void check(VP8StatusCode status) {
    constexpr const char* kReasons[] = {"",
                                        "there is no memory for it",
                                        "it is called wrongly",
                                        "its data contradict each other",
                                        "it has a feature that is not read",
                                        "decoding was stopped",
                                        "decoding was stopped",
                                        "it is cut off"};
    if (status != VP8_STATUS_OK) bad_image(kFormat, kReasons[status]);
  }

  void decode_into(Image& image, int channels) {
    image.reshape({header_.height, header_.width, channels});
    WebPDecoderConfig config;
    WebPInitDecoderConfig(&config);
    config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {image.data(), header_.width * channels, image.size().bytes()};
    check(WebPDecode(bytes_.bytes, bytes_.size, &config));
  }

  /// On the canvas of the animation, which is transparent at first.
  void read_first_frame() {
    WebPAnimDecoderOptions options;
    WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(
        WebPAnimDecoderNew(&bytes_, &options), WebPAnimDecoderDelete);
    std::uint8_t* frame = nullptr;
    int milliseconds = 0;
    if (!decoder || !WebPAnimDecoderGetNext(decoder.get(), &frame, &milliseconds))
      bad_image(kFormat, "its first frame is damaged or cut off");
    rgba_.reshape({header_.height, header_.width, 4});
    std::copy_n(frame, rgba_.size().bytes(), rgba_.data());
  }

  int orientation() const {
    WebPDemuxState state;
    const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demuxer(WebPDemuxPartial(&bytes_, &state),
                                                                             WebPDemuxDelete);
    WebPChunkIterator chunk{};
    if (!demuxer || !WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk)) return 1;
    std::span<const std::byte> exif(reinterpret_cast<const std::byte*>(chunk.chunk.bytes), chunk.chunk.size);
    // The chunk holds the TIFF structure; some writers put the prefix of JPEG's segment before it.
    if (exif.size() > 6 && std::to_integer<char>(exif[0]) == 'E') exif = exif.subspan(6);
    const int found = exif_orientation(exif);
    WebPDemuxReleaseChunkIterator(&chunk);
    return found;
  }

  WebPData bytes_{};
  WebPBitstreamFeatures features_{};
  ImageHeader header_;
  Image rgba_;
};

}  // namespace

std::unique_ptr<ImageReader> webp_reader() { return std::make_unique<WebpReader>(); }

}  // namespace neurim
