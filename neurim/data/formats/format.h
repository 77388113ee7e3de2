// The image formats that Decoder reads.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "neurim/data/decode.h"

namespace neurim {

/// Reads images of one format, one after the other, as they are stored: not turned upright. Holds what it
/// needs for that, so one reader serves one thread.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  /// The header of the image file that is stored there, whose bytes stay until its pixels are read. Throws by
  /// bad_image.
  virtual ImageHeader open(const StoredImage& stored) = 0;
  /// How many times smaller `read` can decode at most; 1: not at all.
  virtual int most_reduction() const { return 1; }
  /// Decodes the image that was opened, at least the pixels of `part`; returns where they lie in `image`,
  /// which gets the channels that Decoder states. `reduction`, a power of two of at most most_reduction, means what it
  /// means to Decoder::read. Called after the header was found to be in bounds.
  virtual Box read(const Box& part, int reduction, const DecodeOptions& options, Image& image) = 0;
  /// Looks at what the last read did not: throws where that is damaged. Nothing in formats that always read all.
  virtual void check_rest() {}
};

/// A format and how its files begin.
struct ImageFormat {
  std::string_view name, magic;                      ///< as messages call it, and the bytes that tell it
  std::size_t at;                                    ///< the offset of the magic bytes
  std::unique_ptr<ImageReader> (*reader)();          ///< null: known only
  bool (*sure)(std::string_view content) = nullptr;  ///< a further look, where the magic alone may stand in a text
};
/// Those that this build knows; none where it reads no image files.
std::span<const ImageFormat> image_formats();

/// Ends the decoding of one image: throws Error(data) "cannot decode this FORMAT: REASON; …".
[[noreturn]] void bad_image(std::string_view format, std::string_view reason);

/// The same for a whole file of a kind that is not read: "cannot decode this FORMAT: REASON; convert it …".
[[noreturn]] void unsupported_image(std::string_view format, std::string_view reason);

/// Throws unless 1 <= width * height <= Decoder::kMostPixels.
void check_pixels(std::string_view format, std::int64_t height, std::int64_t width);

/// `rgba` over `background`, to the channels (1 or 3) that `image` has; the first of a gray one counts. Where `image`
/// has alpha (2 or 4 channels), `rgba` itself. Its corner comes to lie at (top, left), and nothing of it outside of
/// `image`.
void blend(const Image& rgba, const std::array<std::uint8_t, 3>& background, Image& image, int top = 0, int left = 0);

/// Fills an image of 3 channels with the background, one of 4 with what is transparent.
void fill_canvas(const std::array<std::uint8_t, 3>& background, Image& image);

std::unique_ptr<ImageReader> bmp_reader();
std::unique_ptr<ImageReader> gif_reader();
std::unique_ptr<ImageReader> jpeg_reader();
std::unique_ptr<ImageReader> npy_reader();
std::unique_ptr<ImageReader> png_reader();
std::unique_ptr<ImageReader> pnm_reader();
std::unique_ptr<ImageReader> tiff_reader();
std::unique_ptr<ImageReader> webp_reader();

}  // namespace neurim
