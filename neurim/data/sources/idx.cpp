// The IDX files of MNIST and its kin: a big-endian header, then bytes (yann.lecun.com/exdb/mnist, "the IDX
// file format").
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/sha256.h"
#include "neurim/data/dataset.h"
#include "neurim/data/download.h"
#include "neurim/data/sources/memory.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803,
                        kLabelsMagic = 0x00000801;  // unsigned bytes of 3 axes and of 1
constexpr std::uint64_t kMostExpansion = 1040;      // deflate packs 1032 bytes into one at most
constexpr std::uint64_t kUsualExpansion = 16;       // and of images seldom more than these
constexpr std::size_t kPiece = 64 << 20;            // bytes that are unpacked at once
constexpr const char* kFix = "; download the file again";

/// The file of one of its usual spellings, or "".
std::string find_idx(const std::string& folder, std::string_view part, std::string_view kind, int axes) {
  for (const char separator : {'-', '.'})
    for (const std::string_view packing : {"", ".gz"}) {
      const std::string path = text(folder, "/", part, "-", kind, separator, "idx", axes, "-ubyte", packing);
      std::error_code error;
      if (std::filesystem::is_regular_file(path, error)) return path;
    }
  return "";
}

/// A file that zlib unpacks where it is packed, and reads as it is where not.
class PackedFile {
 public:
  explicit PackedFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) fail(Fault::data, path, ": cannot read; check that the file is readable");
  }
  /// The next `size` bytes or throws. A damaged header may ask for any number of them, so memory is taken for
  /// what is there.
  std::vector<std::uint8_t> read(std::uint64_t size) {
    const std::uint64_t all = std::filesystem::file_size(path_);
    const std::uint64_t left = all - std::min(all, static_cast<std::uint64_t>(gztell(file_.get())));
    if (gzdirect(file_.get()) && size > left) broken(left, size);  // it is not packed
    std::vector<std::uint8_t> bytes;
    bytes.reserve(std::min(size, kUsualExpansion * all));
    while (bytes.size() < size) {
      const std::size_t done = bytes.size(), piece = std::min<std::size_t>(size - done, kPiece);
      bytes.resize(done + piece);
      const int count = gzread(file_.get(), bytes.data() + done, static_cast<unsigned>(piece));
      if (count <= 0) broken(done, size);
      bytes.resize(done + static_cast<std::size_t>(count));
    }
    return bytes;
  }
  std::uint32_t number() {
    const std::vector<std::uint8_t> bytes = read(4);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  }
  void expect_end() {
    char extra;
    const int count = gzread(file_.get(), &extra, 1);
    if (count > 0) fail(Fault::data, path_, ": has more bytes than its header says", kFix);
    if (count < 0) broken(0, 0);
  }

 private:
  [[noreturn]] void broken(std::size_t done, std::size_t size) {
    int code = Z_OK;
    const char* reason = gzerror(file_.get(), &code);
    fail(Fault::data, path_, ": ends or breaks after ", done, " of ", size, " bytes",
         code == Z_OK ? "" : text(" (", reason, ")"), kFix);
  }
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

struct IdxArray {
  std::vector<std::uint32_t> sizes;  // of each axis
  std::vector<std::uint8_t> bytes;
};

IdxArray read_idx(const std::string& path, std::uint32_t magic) {
  PackedFile file(path);
  const std::uint32_t found = file.number();
  if (found != magic) fail(Fault::data, path, ": its magic number is ", found, " where IDX bytes have ", magic, kFix);
  IdxArray array;
  const std::uint64_t bound = std::filesystem::file_size(path) * kMostExpansion;
  std::uint64_t total = 1;
  for (std::uint32_t axis = 0; axis < (magic & 0xFF); ++axis) {
    const std::uint32_t size = file.number();
    if (size == 0 || size > bound / total)
      fail(Fault::data, path, ": its header states ", size, " along axis ", axis, ", which the file cannot hold", kFix);
    total *= size;
    array.sizes.push_back(size);
  }
  array.bytes = file.read(total);
  file.expect_end();
  return array;
}

/// The names of the classes of Fashion-MNIST (Xiao et al. 2017), where the labels are its own and the classes that are
/// asked for, if any, are not the numbers that they are in the file; else none.
std::vector<std::string> published_names(const IdxArray& labels, const DatasetOptions& options) {
  const std::vector<std::string> names{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                       "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  const std::vector<std::string>& wanted = options.class_names;
  if (!wanted.empty() && std::find_first_of(wanted.begin(), wanted.end(), names.begin(), names.end()) == wanted.end())
    return {};
  std::string head;
  for (const std::uint32_t number : {kLabelsMagic, labels.sizes[0]})
    for (const int shift : {24, 16, 8, 0}) head += static_cast<char>(number >> shift & 0xFF);
  Sha256 sha;
  sha.add(std::as_bytes(std::span(head)));
  sha.add(std::as_bytes(std::span(labels.bytes)));
  const std::string digest = sha.hex();
  return digest == kFashionTrainLabels || digest == kFashionTestLabels ? names : std::vector<std::string>();
}

}  // namespace

bool is_idx(const std::string& folder) {
  return !find_idx(folder, "train", "images", 3).empty() || !find_idx(folder, "t10k", "images", 3).empty();
}

Listing open_idx(const std::string& folder, const DatasetOptions& options) {
  Listing listing;
  std::vector<MemorySource::Part> parts;
  ImageSize size;
  for (const auto& [prefix, split] : {std::pair{"train", Split::train}, std::pair{"t10k", Split::test}}) {
    const std::string images_path = find_idx(folder, prefix, "images", 3);
    const std::string labels_path = find_idx(folder, prefix, "labels", 1);
    if (images_path.empty() && labels_path.empty() && split == Split::test) continue;
    if (images_path.empty() || labels_path.empty())
      fail(Fault::data, folder, ": ", prefix, "-", images_path.empty() ? "images-idx3" : "labels-idx1",
           "-ubyte (or .gz) is missing; images and labels of train belong together, and so do those of t10k");
    IdxArray images = read_idx(images_path, kImagesMagic);
    const IdxArray labels = read_idx(labels_path, kLabelsMagic);
    if (images.sizes[0] != labels.sizes[0])
      fail(Fault::data, images_path, ": holds ", images.sizes[0], " images, but ", labels_path, " holds ",
           labels.sizes[0], " labels; they are of different sets");
    if (images.sizes[1] > 1u << 14 || images.sizes[2] > 1u << 14)
      fail(Fault::data, images_path, ": images of ", images.sizes[1], " x ", images.sizes[2], " are too large", kFix);
    const ImageSize found{static_cast<int>(images.sizes[1]), static_cast<int>(images.sizes[2]), 1};
    if (parts.empty()) size = found;
    if (found != size)
      fail(Fault::data, images_path, ": images of ", found.height, " x ", found.width, " beside training ones of ",
           size.height, " x ", size.width, "; they are of different sets");
    const auto first = static_cast<std::int64_t>(listing.labels.size());
    for (const std::uint8_t label : labels.bytes) {
      listing[split].push_back(static_cast<std::int64_t>(listing.labels.size()));
      listing.labels.push_back(label);
    }
    if (parts.empty()) {
      listing.class_names = names_beside(folder);
      if (listing.class_names.empty()) listing.class_names = published_names(labels, options);
      if (listing.class_names.empty()) listing.class_names = numbered_classes(listing, labels_path, options);
    }
    const std::size_t classes = listing.class_names.size();
    const auto bad = std::find_if(labels.bytes.begin(), labels.bytes.end(),
                                  [&](std::uint8_t l) { return l >= classes; });
    if (bad != labels.bytes.end())
      fail(Fault::data, labels_path, ": label ", static_cast<int>(*bad), " at index ", bad - labels.bytes.begin(),
           ", but there are ", classes, " classes, 0 to ", classes - 1, "; check the labels or labels.txt");
    parts.push_back({images_path, first, std::move(images.bytes)});
  }
  validate_on_test(listing, options);
  listing.source = std::make_shared<MemorySource>(size, std::move(parts));
  return listing;
}

}  // namespace neurim
