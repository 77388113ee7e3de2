// The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny
// images", 2009; cs.toronto.edu/~kriz/cifar.html).
#include <algorithm>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/data/sources/memory.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

constexpr int kSide = 32;
constexpr std::size_t kPlane = kSide * kSide, kPixels = 3 * kPlane;

struct Kind {
  const char* name;
  std::vector<std::string> train;
  const char* test;
  const char* names;
  std::size_t labels;  // bytes before the pixels; the last is the label
  std::size_t classes;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"CIFAR-10",
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       "test_batch.bin",
       "batches.meta.txt",
       1,
       10},
      {"CIFAR-100", {"train.bin"}, "test.bin", "fine_label_names.txt", 2, 100}};
  return all;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// The pickles of the Python version.
bool has_pickles(const fs::path& folder) {
  return is_file(folder / "data_batch_1") || (is_file(folder / "meta") && is_file(folder / "train"));
}

const Kind* kind_of(const fs::path& folder) {
  for (const Kind& kind : kinds()) {
    // Other programs have a train.bin too.
    if (kind.labels == 2 && !is_file(folder / kind.names) && !is_file(folder / "coarse_label_names.txt")) continue;
    if (is_file(folder / kind.test)) return &kind;
    for (const std::string& file : kind.train)
      if (is_file(folder / file)) return &kind;
  }
  return nullptr;
}

std::vector<std::string> class_names(const fs::path& folder, const Kind& kind) {
  std::vector<std::string> names;
  if (!is_file(folder / kind.names)) {
    for (std::size_t c = 0; c < kind.classes; ++c) names.push_back(text(c));
    return names;
  }
  for (const std::string& line : split(read_text(folder / kind.names), '\n'))
    if (!line.empty()) names.push_back(line);
  if (names.size() != kind.classes)
    fail(Fault::data, (folder / kind.names).string(), ": names ", names.size(), " classes, but ", kind.name, " has ",
         kind.classes, "; one a line, or remove the file");
  return names;
}

/// Appends the records of a file to `part` and `listing`.
void read_batch(const fs::path& path, const Kind& kind, Split split, MemorySource::Part& part, Listing& listing) {
  const std::string file = read_file(path);
  const std::size_t record = kind.labels + kPixels;
  if (file.empty() || file.size() % record != 0)
    fail(Fault::data, path.string(), ": ", file.size(), " bytes are no whole number of records of ", record,
         "; it is cut off or no ", kind.name, " file: download it again");
  const std::size_t count = file.size() / record, before = part.pixels.size();
  part.pixels.resize(before + count * kPixels);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(file.data()) + i * record;
    const std::size_t label = from[kind.labels - 1];
    if (label >= kind.classes)
      fail(Fault::data, path.string(), ": label ", label, " at record ", i, ", but ", kind.name, " has ", kind.classes,
           " classes; the file is damaged: download it again");
    listing[split].push_back(static_cast<std::int64_t>(listing.labels.size()));
    listing.labels.push_back(static_cast<std::int64_t>(label));
    std::uint8_t* to = part.pixels.data() + before + i * kPixels;
    for (std::size_t p = 0; p < kPlane; ++p)
      for (std::size_t c = 0; c < 3; ++c) to[3 * p + c] = from[kind.labels + c * kPlane + p];
  }
}

}  // namespace

bool is_cifar(const std::string& path) { return kind_of(path) || has_pickles(path); }

Listing open_cifar(const std::string& path, const DatasetOptions& options) {
  const fs::path folder(path);
  const Kind* kind = kind_of(folder);
  if (!kind)
    fail(Fault::data, path,
         ": holds CIFAR as Python pickles, which can run any code and are not read; download the binary "
         "version "
         "(cifar-10-binary.tar.gz or cifar-100-binary.tar.gz)");
  Listing listing;
  listing.class_names = class_names(folder, *kind);
  std::vector<MemorySource::Part> parts;
  for (const std::string& file : kind->train) {
    if (!is_file(folder / file)) continue;
    parts.push_back({(folder / file).string(), static_cast<std::int64_t>(listing.labels.size()), {}});
    read_batch(folder / file, *kind, Split::train, parts.back(), listing);
  }
  if (is_file(folder / kind->test)) {
    parts.push_back({(folder / kind->test).string(), static_cast<std::int64_t>(listing.labels.size()), {}});
    read_batch(folder / kind->test, *kind, Split::test, parts.back(), listing);
  }
  for (const auto& [split, whole] : {std::pair{Split::train, 50'000u}, std::pair{Split::test, 10'000u}})
    if (listing[split].size() != whole)
      listing.notes.push_back(
          text(split, " holds ", listing[split].size(), " images where ", kind->name, " has ", whole));
  validate_on_test(listing, options);
  listing.source = std::make_shared<MemorySource>(ImageSize{kSide, kSide, 3}, std::move(parts));
  return listing;
}

}  // namespace neurim
