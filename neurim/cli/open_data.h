// Data sets as the verbs open them.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/dataset.h"
#include "neurim/train/console.h"

namespace neurim::cli {

/// Dataset::open; says what a user should know of the data.
Dataset open_data(const std::string& path, const DatasetOptions& options, Console& console);

/// Says notes on data.
void tell_notes(const std::vector<std::string>& notes, Console& console);

/// The splits that have samples, for messages: "train, val".
template <class Data>
std::string splits_of(const Data& data) {
  std::vector<std::string> splits;
  for (const Split split : kSplits)
    if (data.size(split) > 0) splits.emplace_back(name(split));
  return join(splits, ", ");
}

/// The training split, or where it is empty the first that is not.
Split first_split(const Dataset& dataset);

/// For when a copy of the data was or would be written to `out`: throws Error(data) where a part of them is lost or so
/// many images were skipped, so that the copy is not taken for a whole one.
void check_whole(const Dataset& dataset, const std::string& out, std::int64_t skipped = 0);

}  // namespace neurim::cli
