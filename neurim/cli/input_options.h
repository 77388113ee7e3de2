// What verbs that use a trained model may change of how images reach it.
#pragma once
#include <optional>
#include <string>

#include "neurim/data/preprocess.h"
#include "neurim/train/options.h"

namespace neurim::cli {

/// What is not given stays as the model was trained.
struct InputOptions {
  std::optional<InputSize> imgsz;
  std::string resize = "auto", interpolation = "auto", decode = "auto";
  std::optional<double> crop_pct;

  void visit(Options& options);
  /// Throws Error(usage) on values that no image could be brought to.
  Preprocess applied_to(Preprocess preprocess) const;
};

}  // namespace neurim::cli
