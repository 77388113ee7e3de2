// Samples as small images.
#pragma once
#include "neurim/data/dataset.h"
#include "neurim/evaluate/contact_sheet.h"

namespace neurim {

/// A sample's image, upright, in colour, with no side longer than `most` pixels, and this caption. Throws Error(data)
/// where it cannot be read.
Thumbnail thumbnail(const Dataset& dataset, Split split, std::int64_t sample, int most,
                    std::vector<std::string> caption);

}  // namespace neurim
