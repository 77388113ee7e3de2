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

  Box read(const Box& part, int, const DecodeOptions& options, Image& image) override {
    image.reshape({header_.height, header_.width, features_.has_alpha && options.all_channels ? 4 : 3});
    if (features_.has_animation) {
      read_first_frame(options, image);
    } else if (features_.has_alpha && !options.all_channels) {
      rgba_.reshape({header_.height, header_.width, 4});
      decode_into(bytes_, rgba_);
      blend(rgba_, options.background, image);
    } else {
      decode_into(bytes_, image);
    }
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

  /// Decodes a still image to RGB or RGBA, as `image` has channels.
  static void decode_into(const WebPData& bytes, Image& image) {
    WebPDecoderConfig config;
    WebPInitDecoderConfig(&config);
    config.output.colorspace = image.channels() == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {image.data(), image.width() * image.channels(), image.size().bytes()};
    check(WebPDecode(bytes.bytes, bytes.size, &config));
  }

  using Demuxer = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;

  /// What is there of a file that may be cut off.
  Demuxer demuxer() const {
    WebPDemuxState state;
    return {WebPDemuxPartial(&bytes_, &state), WebPDemuxDelete};
  }

  /// On the canvas of the animation, which is transparent at first. Not with WebPAnimDecoder, which holds two
  /// canvases.
  void read_first_frame(const DecodeOptions& options, Image& image) {
    const Demuxer demuxed = demuxer();
    WebPIterator frame{};
    const std::unique_ptr<WebPIterator, decltype(&WebPDemuxReleaseIterator)> released(&frame, WebPDemuxReleaseIterator);
    if (!demuxed || !WebPDemuxGetFrame(demuxed.get(), 1, &frame) || !frame.complete ||
        frame.x_offset + frame.width > header_.width || frame.y_offset + frame.height > header_.height)
      bad_image(kFormat, "its first frame is damaged or cut off");
    fill_canvas(options.background, image);
    rgba_.reshape({frame.height, frame.width, 4});
    decode_into(frame.fragment, rgba_);
    blend(rgba_, options.background, image, frame.y_offset, frame.x_offset);
  }

  int orientation() const {
    const Demuxer demuxed = demuxer();
    WebPChunkIterator chunk{};
    if (!demuxed || !WebPDemuxGetChunk(demuxed.get(), "EXIF", 1, &chunk)) return 1;
    const int found = exif_orientation({reinterpret_cast<const std::byte*>(chunk.chunk.bytes), chunk.chunk.size});
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
