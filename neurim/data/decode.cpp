#include "neurim/data/decode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/format.h"

namespace neurim {
namespace {

using namespace std::string_view_literals;

/// The format that the bytes begin as, or null.
const ImageFormat* format_of(std::span<const std::byte> bytes) {
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::span<const ImageFormat> formats = image_formats();
  const auto format = std::find_if(formats.begin(), formats.end(), [&](const ImageFormat& known) {
    return content.size() >= known.at && content.substr(known.at, known.magic.size()) == known.magic &&
           (!known.sure || known.sure(content));
  });
  return format == formats.end() ? nullptr : &*format;
}

/// A file descriptor that closes itself.
class OpenFile {
 public:
  /// Without waiting for the other end of a pipe.
  explicit OpenFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void unreadable() {
  fail(Fault::data, "cannot read: ", std::strerror(errno), "; check that the file is there and readable");
}

}  // namespace

void bad_image(std::string_view format, std::string_view reason) {
  fail(Fault::data, "cannot decode this ", format, ": ", reason,
       "; the file is damaged or incomplete: replace or remove it");
}

void unsupported_image(std::string_view format, std::string_view reason) {
  fail(Fault::data, "cannot decode this ", format, ": ", reason, "; convert it to a common JPEG or PNG");
}

void check_pixels(std::string_view format, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) bad_image(format, "it has no pixels");
  if (width > Decoder::kMostPixels / height)
    fail(Fault::data, format, " of ", width, " x ", height, " pixels is above the limit of ",
         Decoder::kMostPixels / 1'000'000, " million; scale it down");
}

namespace {

std::atomic<std::int64_t> most_bytes{std::int64_t{256} << 20};

/// Throws if the pixel values of an image would take more than most_image_bytes.
void check_bytes(const ImageHeader& header, const DecodeOptions& options) {
  const std::int64_t value_bytes = header.bits > 8 && options.bits == 16 ? 2 : 1;
  const std::int64_t bytes = std::int64_t{header.height} * header.width * header.channels * value_bytes;
  if (bytes > most_bytes)
    fail(Fault::data, header.format, " of ", header.width, " x ", header.height, " pixels takes ",
         (bytes + (1 << 20) - 1) >> 20, " MiB decoded, more than the ", most_bytes >> 20,
         " MiB of max_image_mib; raise it, or scale the image down");
}

template <class Value>
void blend_values(const Image& rgba, const std::array<std::uint8_t, 3>& background, Image& image, int top, int left) {
  const std::size_t channels = image.channels();
  const bool has_alpha = channels % 2 == 0;
  constexpr std::uint32_t most = std::numeric_limits<Value>::max();
  for (int y = 0; y < rgba.height(); ++y) {
    const Value* from = rgba.values<Value>(y);
    Value* to = image.values<Value>(top + y) + channels * static_cast<std::size_t>(left);
    for (int x = 0; x < rgba.width(); ++x, from += 4, to += channels) {
      if (has_alpha) {
        std::copy_n(from, channels - 1, to);
        to[channels - 1] = from[3];
        continue;
      }
      for (std::size_t c = 0; c < channels; ++c)
        to[c] = static_cast<Value>(
            (std::uint32_t{from[c]} * from[3] + value_as<Value>(background[c]) * (most - from[3]) + most / 2) / most);
    }
  }
}

}  // namespace

std::int64_t most_image_bytes() { return most_bytes; }
void set_most_image_bytes(std::int64_t bytes) {
  require(bytes >= 1, "the limit of an image is ", bytes, " bytes; it is at least 1");
  most_bytes = bytes;
}

void blend(const Image& rgba, const std::array<std::uint8_t, 3>& background, Image& image, int top, int left) {
  const auto of = image.size().bits == 16 ? blend_values<std::uint16_t> : blend_values<std::uint8_t>;
  of(rgba, background, image, top, left);
}

void fill_canvas(const std::array<std::uint8_t, 3>& background, Image& image) {
  const std::size_t values = image.size().bytes();
  if (image.channels() == 4) return void(std::memset(image.data(), 0, values));
  for (std::size_t i = 0; i < values; i += 3) std::copy_n(background.data(), 3, image.data() + i);
}

std::string_view format_of_content(std::span<const std::byte> bytes) {
  const ImageFormat* format = format_of(bytes);
  return format ? format->name : "";
}

std::span<const std::byte> read_into(const std::string& path, std::vector<std::byte>& buffer) {
  const OpenFile file(path);
  struct stat status {};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &status) != 0) unreadable();
  if (!S_ISREG(status.st_mode))
    fail(Fault::data, "not a regular file but a ", S_ISDIR(status.st_mode) ? "folder" : "pipe or device",
         "; remove it");
  if (status.st_size > Decoder::kMostBytes)
    fail(Fault::data, "a file of ", status.st_size, " bytes is above the limit of ", Decoder::kMostBytes,
         "; scale the image down");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (buffer.size() < size) buffer.resize(size);
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::read(file.descriptor(), buffer.data() + filled, size - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) unreadable();
    if (count == 0) break;  // cut off while we read; the decoder says what is missing
    filled += count;
  }
  return {buffer.data(), filled};
}

Decoder::Decoder() = default;
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

const ImageHeader& Decoder::open(const StoredImage& stored, const DecodeOptions& options) {
  stored_ = stored;
  options_ = options;
  reader_ = nullptr;
  if (stored.pixels != ImageSize{}) {
    NEURIM_ASSERT(stored.bytes.size() == stored.pixels.bytes());
    header_ = {.height = stored.pixels.height,
               .width = stored.pixels.width,
               .channels = stored.pixels.channels,
               .bits = stored.pixels.bits};
    return header_;
  }
  require(!image_formats().empty(), "this build reads no image files; decode the image and give its pixels");
  if (stored.bytes.empty()) fail(Fault::data, "the file is empty; replace or remove it");
  const ImageFormat* format = format_of(stored.bytes);
  if (!format)
    fail(
        Fault::data,
        "not an image (its first bytes are of no known format); JPEG, PNG, WebP, GIF, BMP, TIFF, PNM and NPY are read");
  if (!format->reader) fail(Fault::data, format->name, " is not read; convert it to JPEG or PNG");
  std::unique_ptr<ImageReader>& reader = readers_[format->name];
  if (!reader) reader = format->reader();
  header_ = reader->open(stored);
  check_pixels(header_.format, header_.height, header_.width);
  check_bytes(header_, options);
  if (!options.exif) header_.orientation = 1;
  if (header_.orientation >= 5) std::swap(header_.height, header_.width);
  reader_ = reader.get();
  return header_;
}

void Decoder::read(Image& image) {
  const Box whole{0, 0, header_.height, header_.width};
  const Box found = read(whole, image);
  NEURIM_ASSERT(found == whole && image.box() == whole);
}

int Decoder::reduction(const Box& part, int height, int width) const {
  const int most = options_.scaled && reader_ ? reader_->most_reduction() : 1;
  int times = 1;
  while (2 * times <= most && part.height / (2 * times) >= height && part.width / (2 * times) >= width) times *= 2;
  return times;
}

Box Decoder::read(const Box& part, Image& image, int reduction) {
  NEURIM_ASSERT(part.top >= 0 && part.left >= 0 && part.height > 0 && part.width > 0 &&
                part.top + part.height <= header_.height && part.left + part.width <= header_.width);
  NEURIM_ASSERT(reduction == 1 || (reader_ && reduction <= reader_->most_reduction()));
  if (!reader_) {
    image.reshape(stored_.pixels);
    std::memcpy(image.data(), stored_.bytes.data(), stored_.bytes.size());
    return part;
  }
  const int orientation = header_.orientation;
  if (orientation == 1) return reader_->read(part, reduction, options_, image);
  const Box stored = orientation >= 5 ? Box{0, 0, header_.width, header_.height}
                                      : Box{0, 0, header_.height, header_.width};
  const Box found = reader_->read(stored_box(part, orientation, stored.height, stored.width), reduction, options_,
                                  turned_);
  turn_upright(turned_, orientation, image);
  return upright_box(found, orientation, turned_.height() * reduction, turned_.width() * reduction);
}

void Decoder::check_rest() {
  if (reader_) reader_->check_rest();
}

const ImageHeader& Decoder::open_file(const std::string& path, const DecodeOptions& options) {
  return open({read_into(path, file_), {}}, options);
}

}  // namespace neurim
