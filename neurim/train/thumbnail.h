// Samples as small images.
#pragma once
#include "neurim/data/dataset.h"
#include "neurim/data/decode.h"
#include "neurim/evaluate/contact_sheet.h"

namespace neurim {

/// The image that a decoder has opened, upright, in colour, with no side longer than `most` pixels, and this caption.
/// Throws Error(data) where it cannot be read.
Thumbnail thumbnail(Decoder& opened, int most, std::vector<std::string> caption);

/// The same of a sample.
Thumbnail thumbnail(const Dataset& dataset, Split split, std::int64_t sample, int most,
                    std::vector<std::string> caption);

}  // namespace neurim
