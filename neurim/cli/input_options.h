// Options that change a trained model's preprocessing, for verbs that use it.
#pragma once
#include <optional>
#include <string>

#include "neurim/data/preprocess.h"
#include "neurim/train/options.h"

namespace neurim::cli {

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
