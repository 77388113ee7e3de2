// Images as files.
#pragma once
#include <string>

#include "neurim/data/image.h"

namespace neurim {

/// The bytes of a PNG with exactly these pixel values. Throws Error(data) for more than 4 channels.
std::string encode_png(const Image& image);

}  // namespace neurim
