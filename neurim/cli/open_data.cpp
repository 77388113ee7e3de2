#include "neurim/cli/open_data.h"

#include "neurim/base/error.h"

namespace neurim::cli {

Dataset open_data(const std::string& path, const DatasetOptions& options, Console& console) {
  Dataset dataset = Dataset::open(path, options);
  print_notes(dataset.notes(), console);
  return dataset;
}

void print_notes(const std::vector<std::string>& notes, Console& console) {
  for (const std::string& note : notes) console.print(text("  data    ", note));
}

Split first_split(const Dataset& dataset) {
  for (const Split split : kSplits)
    if (dataset.size(split) > 0) return split;
  return Split::train;
}

void check_whole(const Dataset& dataset, const std::string& out, std::int64_t skipped) {
  if (!dataset.damage().empty())
    fail(Fault::data, out, ": gets only the part of the data that can be read (", dataset.damage(),
         "); download that file again and write ", out, " anew");
  if (skipped > 0)
    fail(Fault::data, out, ": gets only the part of the data that can be read: ", skipped, " of ", dataset.size(),
         " images are left out; repair or remove them ('neurim data scan' says why)");
}

}  // namespace neurim::cli
