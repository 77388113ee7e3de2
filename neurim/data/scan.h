// Looking at every image file below a folder or at every sample of a set, and writing nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/dataset.h"

namespace neurim {

/// What is to be known of one file or sample.
struct ScannedFile {
  enum class Status : std::uint8_t {
    ok,       ///< decodes whole
    partial,  ///< says what it is, but its pixels are damaged or cut off: training skips it
    error,    ///< no image that can be read
  };
  /// Its path below the folder, with a slash at the end where it is a folder that cannot be listed, or that is
  /// called as an image is and holds none; of a sample its name.
  std::string file;
  Status status = Status::error;
  ImageHeader header;       ///< of images that are not errors: size after turning upright
  std::uint64_t bytes = 0;  ///< of the file
  std::string reason;       ///< why it is not ok; for an ok one what is odd about it, or empty
};
std::string_view name(ScannedFile::Status status);

/// Decodes every image file below `root`, in the lexicographic order of their paths, on so many threads;
/// hands each to `found`, in that order, from the calling thread. Image files are those with the extension
/// or with the first bytes of an image; hidden ones and those of runs are passed over. Links to folders are followed,
/// each folder is looked at once, and one below `root` that cannot be listed is an error among the files. Returns the
/// number of other files. Takes at most the memory of one image of Decoder::kMostPixels for each thread. Throws
/// Error(data) where `root` cannot be listed.
std::int64_t scan(const std::string& root, int threads, const std::function<void(const ScannedFile&)>& found);

/// The same of every sample of a set, in the order of its splits.
void scan(const Dataset& dataset, int threads, const std::function<void(const ScannedFile&)>& found);

}  // namespace neurim
