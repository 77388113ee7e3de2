// Several views of an image, whose answers are averaged (test-time augmentation).
#pragma once
#include <string_view>
#include <vector>

#include "neurim/data/augment.h"
#include "neurim/data/preprocess.h"

namespace neurim {

/// The views that a list names: "hflip", the image and its mirror image; "5crop", the corners and the centre of the
/// image as ResizeMode::crop scales it (torchvision's FiveCrop); both, ten views; "none" or "", the image alone. The
/// numbers of views 1, 5 and 10 name them too. Throws Error(usage) for another word, and for 5crop with a preprocessing
/// that cuts nothing.
std::vector<Augment> parse_views(std::string_view list, const Preprocess& preprocess);

}  // namespace neurim
