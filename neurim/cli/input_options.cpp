#include "neurim/cli/input_options.h"

namespace neurim::cli {

void InputOptions::visit(Options& o) {
  o("resize", resize, "how pictures of other shapes are fitted: crop, squash, letterbox, shortest (crop with crop_pct=1); auto: as in training",
    {"resize_mode", "crop_mode"});
  o("crop_pct", crop_pct, "resize=crop: share of the height that the crop keeps; auto: as in training");
  o("interpolation", interpolation, "how pictures are resized: nearest, bilinear, bicubic; auto: as in training");
}

Preprocess InputOptions::applied_to(Preprocess preprocess) const {
  preprocess.choose_resize(resize, crop_pct);
  if (interpolation != "auto") preprocess.interpolation = interpolation_named(interpolation);
  preprocess.check();
  return preprocess;
}

}  // namespace neurim::cli
