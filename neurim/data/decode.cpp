#include "neurim/data/decode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/data/exif.h"
#include "neurim/data/format.h"

namespace neurim {
namespace {

struct Format {
  std::string_view name;
  std::string_view magic;
  std::size_t at;  // the offset of the magic bytes
  int (*read)(std::span<const std::byte>, std::string_view, const DecodeOptions&, Image&,
              Image&);  // null: known only
};

using namespace std::string_view_literals;
constexpr Format kFormats[] = {
    {"JPEG", "\xFF\xD8\xFF"sv, 0, read_jpeg},
    {"PNG", "\x89PNG\r\n\x1A\n"sv, 0, read_png},
    {"GIF", "GIF8"sv, 0, nullptr},
    {"BMP", "BM"sv, 0, nullptr},
    {"WebP", "WEBP"sv, 8, nullptr},
    {"TIFF", "II*\0"sv, 0, nullptr},
    {"TIFF", "MM\0*"sv, 0, nullptr},
    {"AVIF or HEIC", "ftyp"sv, 4, nullptr},
    {"PNM", "P5"sv, 0, nullptr},
    {"PNM", "P6"sv, 0, nullptr},
};

/// A file descriptor that closes itself.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void unreadable(const std::string& path) {
  fail(Fault::data, path, ": cannot read: ", std::strerror(errno),
       "; check that the file is there and readable");
}

}  // namespace

void bad_image(std::string_view name, std::string_view format, std::string_view reason) {
  fail(Fault::data, name, ": cannot decode this ", format, ": ", reason,
       "; the file is damaged or incomplete: replace or remove it");
}

void check_pixels(std::string_view name, std::string_view format, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) bad_image(name, format, "it has no pixels");
  if (width > Decoder::kMostPixels / height)
    fail(Fault::data, name, ": ", format, " of ", width, " x ", height, " pixels is above the limit of ",
         Decoder::kMostPixels / 1'000'000, " million; scale it down");
}

int Decoder::decode(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions& options,
                    Image& image) {
  if (bytes.empty()) fail(Fault::data, name, ": the file is empty; replace or remove it");
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto* format = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& known) {
    return content.size() >= known.at && content.substr(known.at, known.magic.size()) == known.magic;
  });
  if (format == std::end(kFormats))
    fail(Fault::data, name,
         ": not a picture (its first bytes are of no known format); JPEG and PNG are read");
  if (!format->read) fail(Fault::data, name, ": ", format->name, " is not read; convert it to JPEG or PNG");
  const int orientation = format->read(bytes, name, options, scratch_, image);
  if (!options.exif || orientation == 1) return 1;
  turn_upright(image, orientation, scratch_);
  std::swap(image, scratch_);
  return orientation;
}

int Decoder::decode_file(const std::string& path, const DecodeOptions& options, Image& image) {
  const OpenFile file(path);
  struct stat status{};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &status) != 0) unreadable(path);
  const std::size_t size = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  if (file_.size() < size) file_.resize(size);
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t count = ::read(file.descriptor(), file_.data() + filled, size - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) unreadable(path);
    if (count == 0) break;  // cut off while we read; the decoder says what is missing
    filled += static_cast<std::size_t>(count);
  }
  return decode({file_.data(), filled}, path, options, image);
}

}  // namespace neurim
