// Opens data sets for the verbs.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/dataset.h"
#include "neurim/train/console.h"

namespace neurim::cli {

/// Dataset::open, and prints the notes on the data.
Dataset open_data(const std::string& path, const DatasetOptions& options, Console& console);

/// Prints notes on the data.
void print_notes(const std::vector<std::string>& notes, Console& console);

/// The splits that have samples, for messages: "train, val".
template <class Data>
std::string splits_of(const Data& data) {
  std::vector<std::string> splits;
  for (const Split split : kSplits)
    if (data.size(split) > 0) splits.emplace_back(name(split));
  return join(splits, ", ");
}

/// The training split or, if it is empty, the first that is not.
Split first_split(const Dataset& dataset);

/// Checks that a copy of the data, written or to be written to `out`, is complete: throws Error(data) if a part of the
/// data is lost or so many images were skipped.
void check_whole(const Dataset& dataset, const std::string& out, std::int64_t skipped = 0);

}  // namespace neurim::cli
