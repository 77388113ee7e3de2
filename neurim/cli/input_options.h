// Options that change a trained model's preprocessing, for verbs that use it.
#pragma once
#include <optional>
#include <string>

#include "neurim/data/preprocess.h"
#include "neurim/train/options.h"

namespace neurim::cli {

inline constexpr const char* kViewsOfImages =
    "answer by the mean probabilities of several views of an image: hflip, its mirror image too; 5crop, its corners "
    "and centre; or both";

/// Unset options keep the value of training.
struct InputOptions {
  std::optional<InputSize> imgsz;
  std::string resize = "auto", interpolation = "auto", decode = "auto";
  std::optional<double> crop_pct;

  void visit(Options& options);
  /// Throws Error(usage) for values that no image can be brought to.
  Preprocess applied_to(Preprocess preprocess) const;
};

}  // namespace neurim::cli
