// Telling data sets apart.
#pragma once
#include <array>
#include <string>

#include "neurim/data/dataset.h"

namespace neurim {

/// SHA-256 of which samples a split has, in order, and of which class each is: equal for equal splits, wherever
/// the data lie. Knows the samples by their names, not by their pixels.
std::string fingerprint(const Dataset& dataset, Split split);

/// The same with the sizes and times of the files that hold the samples: differs where a file was written
/// anew.
std::string file_fingerprint(const Dataset& dataset, Split split);

/// What the samples of a split hold: a SHA-256 of their stored bytes, or, where the files of the set have
/// more than 256 MiB, of the sizes and times of the files.
struct ContentPrint {
  bool whole = true;  ///< of the bytes
  std::array<std::string, kSplits.size()> splits;
};
ContentPrint content_fingerprint(const Dataset& dataset);

}  // namespace neurim
