#include "neurim/train/cross_validation.h"

#include <optional>

#include "neurim/base/error.h"
#include "neurim/train/validation.h"

namespace neurim {

Predictions cross_validated(const TrainOptions& options, std::int64_t folds, const TrainControl& control) {
  require(folds >= 2, "folds is ", folds, "; it is at least 2");
  std::optional<Predictions> predictions;
  for (std::int64_t fold = 0; fold < folds; ++fold) {
    TrainOptions of_fold = options;
    of_fold.folds = folds;
    of_fold.fold = fold;
    of_fold.name = text("fold", fold);
    of_fold.plots = false;
    const TrainResult result = train(of_fold, control);
    const Checkpoint checkpoint = load_checkpoint(result.model);
    const ModelConfig& config = checkpoint.config;
    require(config.task() == classify_task(), "label issues are found in images of one class");
    if (!predictions) predictions.emplace(config.class_names);
    if (result.stopped) break;
    const Dataset dataset = Dataset::open(of_fold.data, dataset_of(of_fold));
    const TrainOptions resolved = of_fold.resolved(checkpoint.model, dataset);
    Validation(checkpoint.model, dataset, Split::val, config.preprocess, resolved).run({}, &*predictions);
  }
  return *predictions;
}

}  // namespace neurim
