// Images that stand in a data set more than once.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "neurim/data/dataset.h"

namespace neurim {

struct SampleId {
  Split split;
  std::int64_t index;
};

/// Samples that show the same image.
struct DuplicateGroup {
  std::vector<SampleId> samples;  ///< at least two, in the order of the splits
  bool exact = false;             ///< their stored bytes are equal; else they look alike
  bool across_splits = false;     ///< not all of one split: what is evaluated was trained on
  bool labels_differ = false;     ///< not all of one class: some label is wrong
};

struct Duplicates {
  std::vector<DuplicateGroup> groups;   ///< those across splits first
  std::vector<std::string> unreadable;  ///< why samples took no part; names them
};

/// Compares all samples of all splits, on so many threads. Exact: SHA-256 of the stored bytes. Alike: which
/// of the 64 slowest waves (DCT) of gray images of 24 x 24 are positive differs in at most 7, and the
/// images correlate by at least 0.985, which survives scaling, compression and other brightness and
/// contrast, not cropping or turning. `progress` is called now and then with the number of samples read and
/// of all.
Duplicates find_duplicates(const Dataset& dataset, int threads,
                           const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

}  // namespace neurim
