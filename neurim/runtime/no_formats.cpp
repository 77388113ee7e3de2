#include "neurim/data/formats/format.h"

namespace neurim {

std::span<const ImageFormat> image_formats() { return {}; }

}  // namespace neurim
