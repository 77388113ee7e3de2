#include "neurim/quantize/prune_model.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/model/function_model.h"
#include "neurim/train/export_checkpoint.h"
#include "neurim/train/validation.h"

namespace neurim {

PrunedClassifier prune_model(const Checkpoint& checkpoint, const Dataset& dataset, const PruneModelOptions& options,
                             const std::function<void(const std::string&)>& tell, const TrainControl& control) {
  options.channels.check();
  require(options.epochs.value_or(0) >= 0 && options.lr.value_or(1) > 0, "epochs is ", options.epochs.value_or(0),
          "; it is at least 0, and lr is above 0");
  const std::int64_t epochs = options.epochs.value_or(
      std::max<std::int64_t>(1, (options.options.epochs.value_or(1) + 1) / 2));
  require(epochs == 0 || dataset.size(Split::train) > 0, "epochs: there is no train split to train on");
  const auto accuracy = [&](const Model& model) {
    return accuracy_of(model, dataset, options.split, checkpoint.config.preprocess, options.options);
  };
  PrunedClassifier result{.before = accuracy(checkpoint.model)};
  result.pruned = prune_channels(float_model(function_of(checkpoint)), options.channels);
  const auto answering = [&] { return model_of(result.pruned.model.function, checkpoint.config.model); };
  if (tell) {
    std::size_t channels = 0;
    std::int64_t kept = 0;
    for (const ChannelGroup& group : result.pruned.groups) channels += group.importance.size(), kept += group.kept;
    tell(text(kept, " of ", channels, " channels stay in ", result.pruned.groups.size(), " groups; before training ",
              fixed(100 * result.before, 2), " -> ", fixed(100 * accuracy(answering()), 2), " %"));
  }
  if (epochs > 0) {
    const AwareModel learning(result.pruned.model);
    const FineTuning how{epochs, options.lr.value_or(*options.options.lr / 100), options.run};
    if (!fine_tune(learning, checkpoint, dataset, options.options, how, control)) return {.stopped = true};
    result.pruned.model = learning.trained();
  }
  result.stopped = control.stop && *control.stop != 0;
  result.after = accuracy(answering());
  return result;
}

}  // namespace neurim
