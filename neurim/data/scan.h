// Looking at every picture file below a folder, and writing nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/decode.h"

namespace neurim {

/// What is to be known of one file.
struct ScannedFile {
  enum class Status : std::uint8_t {
    ok,       ///< decodes whole
    partial,  ///< says what it is, but its pixels are damaged or cut off: training skips it
    error,    ///< no picture that can be read
  };
  std::string file;  ///< its path below the folder
  Status status = Status::error;
  ImageHeader header;         ///< of pictures that are not errors: size after turning upright
  std::uint64_t bytes = 0;    ///< of the file
  std::string reason;         ///< why it is not ok; for an ok one what is odd about it, or empty
};
std::string_view name(ScannedFile::Status status);

/// Decodes every picture file below `root`, in the lexicographic order of their paths, on so many threads;
/// hands each to `found`, in that order, from the calling thread. Picture files are those with the extension
/// or with the first bytes of a picture; hidden ones are passed over. Returns the number of other files.
/// Takes at most the memory of one picture of Decoder::kMostPixels for each thread. Throws Error(data) where
/// `root` cannot be listed.
std::int64_t scan(const std::string& root, int threads, const std::function<void(const ScannedFile&)>& found);

}  // namespace neurim
