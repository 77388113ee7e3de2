#include "neurim/cli/open_data.h"

#include "neurim/base/error.h"

namespace neurim::cli {

Dataset open_data(const std::string& path, const DatasetOptions& options, Console& console) {
  Dataset dataset = Dataset::open(path, options);
  for (const std::string& note : dataset.notes()) console.say(text("  data    ", note));
  return dataset;
}

void check_whole(const Dataset& dataset, const std::string& out) {
  if (!dataset.damage().empty())
    fail(Fault::data, out, ": gets only the part of the data that can be read (", dataset.damage(),
         "); download that file again and write ", out, " anew");
}

}  // namespace neurim::cli
