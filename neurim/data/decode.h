// From the bytes of an image file to pixels.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/data/image.h"

namespace neurim {

/// The rules of decoding that change pixels.
struct DecodeOptions {
  bool exif = true;  ///< turn the image upright as its EXIF orientation says
  /// What shows through transparent pixels: result = alpha * pixel + (1 - alpha) * background.
  std::array<std::uint8_t, 3> background{255, 255, 255};
  /// Give alpha as a channel, and what else a pixel has beside gray or colour.
  bool all_channels = false;
  /// JPEGs that are resized to half and less may be decoded at 1/2, 1/4 or 1/8: see Decoder::reduction. Much faster,
  /// and not quite the same values.
  bool scaled = false;
  /// 16: images of more than 8 bits a pixel value come as 16, over their whole range; else all come as 8.
  int bits = 8;
  bool operator==(const DecodeOptions&) const = default;
};

/// The most bytes that the values of one image may take, decoded with all channels that it is stored with; larger ones
/// are refused before any memory is taken for them. For the whole process; 256 MiB to begin with.
std::int64_t most_image_bytes();
void set_most_image_bytes(std::int64_t bytes);  ///< for the whole process

/// What an image file says of itself before its pixels are read.
struct ImageHeader {
  std::string_view format;    ///< "JPEG", "PNG", …; empty where the image is no file
  int height = 0, width = 0;  ///< pixels
  int channels = 0;     ///< as stored: 1 gray, 2 gray and alpha, 3 colour (palettes too), 4 with alpha or of inks, more
  int bits = 8;         ///< of a stored value
  int orientation = 1;  ///< EXIF's, 1 to 8; 1 is upright
};

/// An item as it lies in a source: the bytes of an image file or, where `pixels` has a size, the values of a
/// image (height x width x channels).
struct StoredImage {
  std::span<const std::byte> bytes;  ///< the file, or the pixel values
  ImageSize pixels{};                ///< of decoded pixel values; else empty
  /// Of a JPEG with an index (formats/jpeg_rows.h): where its rows of blocks lie, and how high they are.
  std::span<const std::uint32_t> rows{};
  std::uint32_t block_height = 0;  ///< rows of a block
};

class ImageReader;

/// Decodes images; holds the buffers that it needs, so one Decoder serves one thread and soon allocates no
/// more.
///
/// Formats, told by their first bytes and never by the file name: JPEG (baseline, progressive, gray, CMYK and
/// YCCK; inks are turned to RGB by R = C'K'/255 with C' and K' the light that the ink lets through), PNG (an
/// animated one gives its default image), WebP and GIF (the first frame), BMP, TIFF (the first page; up to
/// 16 bits) and PNM. Where DecodeOptions::bits is 8, values of 16 bits give the upper 8 (of PNM, NPY and of colour in
/// TIFF: the nearest of 8 bits), and .npy files of one array (height, width) or (height, width, channels) of u8 or u16.
/// Colour profiles are not applied. The result has 1 channel where the file is gray, else 3; with
/// DecodeOptions::all_channels one more where it has alpha; and all that there are of a TIFF of more samples than gray
/// or colour with alpha, and of an .npy.
///
/// Errors are Error(data) that say what is wrong, not with which file: callers add the name.
class Decoder {
 public:
  /// Images of more pixels are refused before any memory is taken for them.
  static constexpr std::int64_t kMostPixels = 100'000'000;
  /// And larger files: 8 bytes a pixel is RGB and alpha of 16 bits.
  static constexpr std::int64_t kMostBytes = 10 * kMostPixels;

  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;  ///< Takes over the other's image.

  /// Reads the header, whose height and width are those of the upright image. What `stored` refers to must
  /// stay until the image is read. Throws where it is empty, of no known format, damaged or too large.
  const ImageHeader& open(const StoredImage& stored, const DecodeOptions& options = {});
  const ImageHeader& header() const { return header_; }  ///< of the open image
  /// Decodes the image that was opened, turned upright. Throws where it is damaged or cut off.
  void read(Image& image);
  /// How many times smaller, 1, 2, 4 or 8, `part` may be read where it is then resized to `height` x `width`: the most
  /// after which nothing is enlarged. 1 without DecodeOptions::scaled, and of all formats but JPEG.
  int reduction(const Box& part, int height, int width) const;
  /// Decodes at least the pixels of `part`, a box of the upright image; returns where they lie in `image`.
  /// They are exactly those of the whole image; damage outside of them may go unnoticed until check_rest.
  ///
  /// With a `reduction`, as the function of that name gives it, each pixel of `image` stands for so many in each
  /// direction. The box that is returned counts the pixels of the full image, so that it may begin and end within a
  /// pixel of `image`; Resampler::resize takes it so.
  Box read(const Box& part, Image& image, int reduction = 1);
  /// After read of a part: throws where read of the whole image would have, at less cost. A JPEG with an index
  /// (StoredImage::rows) was looked at when that was made.
  void check_rest();

  /// open() of a file, whose bytes the decoder holds.
  const ImageHeader& open_file(const std::string& path, const DecodeOptions& options = {});

 private:
  StoredImage stored_;
  DecodeOptions options_;
  ImageHeader header_;
  ImageReader* reader_ = nullptr;                                     // of the open image's format
  std::map<std::string_view, std::unique_ptr<ImageReader>> readers_;  // by format, made when first met
  std::vector<std::byte> file_;
  Image turned_;
};

/// The name of the image format that the bytes begin as, which Decoder may know without reading it; "" for
/// none.
std::string_view format_of_content(std::span<const std::byte> bytes);

/// Reads a whole regular file into `buffer`, which only grows, and returns its bytes. Throws Error(data)
/// without the path; a pipe or device is refused and never waited for, and so is a file of more than
/// Decoder::kMostBytes.
std::span<const std::byte> read_into(const std::string& path, std::vector<std::byte>& buffer);

}  // namespace neurim
