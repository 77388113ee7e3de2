#include "neurim/cli/input_options.h"

namespace neurim::cli {

void InputOptions::visit(Options& o) {
  o.topic("images");
  o("imgsz", imgsz,
    "size of the model's input, pixels: one number, or height x width such as 192x320; auto: as in training",
    {"img_size", "input_size"});
  o("resize", resize,
    "how images of other shapes are fitted: crop, squash, letterbox, shortest (crop with crop_pct=1); auto: as in "
    "training",
    {"resize_mode", "crop_mode"});
  o("crop_pct", crop_pct, "resize=crop: share of the height that the crop keeps; auto: as in training");
  o("interpolation", interpolation, "how images are resized: nearest, bilinear, bicubic; auto: as in training");
  o("decode", decode,
    "exact, or scaled (JPEGs that are shrunk to half and less are decoded at 1/2, 1/4 or 1/8); auto: as in training");
}

Preprocess InputOptions::applied_to(Preprocess preprocess) const {
  if (imgsz) preprocess.height = static_cast<int>(imgsz->height), preprocess.width = static_cast<int>(imgsz->width);
  preprocess.choose_resize(resize, crop_pct);
  if (interpolation != "auto") preprocess.interpolation = interpolation_named(interpolation);
  if (decode != "auto") preprocess.decode.scaled = scaled_named(decode);
  preprocess.check();
  return preprocess;
}

}  // namespace neurim::cli
