// Pictures as files.
#pragma once
#include <string>

#include "neurim/data/image.h"

namespace neurim {

/// The bytes of a PNG with exactly these levels, of 1 or 3 channels.
std::string encode_png(const Image& image);

}  // namespace neurim
