#include "neurim/train/view_validation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/data/open_loader.h"
#include "neurim/evaluate/calibration.h"
#include "neurim/ops/softmax.h"
#include "neurim/train/step.h"

namespace neurim {

std::optional<Evaluation> validate_views(const Model& model, const Dataset& dataset, Split split,
                                         const Preprocess& preprocess, const TrainOptions& options,
                                         const std::vector<Augment>& views, std::vector<BadSample>& bad,
                                         Predictions& predictions, const Validation::Watch& watch) {
  const std::size_t classes = dataset.class_names().size();
  const auto samples = static_cast<std::size_t>(dataset.size(split));
  std::vector<float> sums(samples * classes), shares;
  std::vector<bool> seen;
  LoaderOptions loading = loader_of(options);
  loading.cache = Cache::none;  // each view is read once
  Compiled plans([&](const Tensors& in) { return Tensors{softmax(validation_step(model)(in)[0])}; },
                 {.deterministic = options.deterministic, .device = device_named(options.device)});
  for (std::size_t view = 0; view < views.size(); ++view) {
    const std::unique_ptr<BatchSource> loader = open_loader(options.loader, dataset, split, preprocess, views[view],
                                                            loading);
    seen.assign(samples, false);
    loader->start(0);
    Batch batch;
    for (std::int64_t done = 1; loader->next(batch); ++done) {
      const Plan& plan = plans.plan_for(
          batch_types(batch.size, preprocess.channels, preprocess.height, preprocess.width));
      run_batch(plan, batch);
      shares.resize(static_cast<std::size_t>(batch.size) * classes);
      plan.outputs()[0].read(shares.data());
      for (std::size_t i = 0; i < static_cast<std::size_t>(batch.size); ++i) {
        const auto index = static_cast<std::size_t>(batch.indices[i]);
        if (seen[index]) continue;  // a repeated sample stands in for one that cannot be decoded
        seen[index] = true;
        for (std::size_t c = 0; c < classes; ++c) sums[index * classes + c] += shares[i * classes + c];
      }
      const double part = static_cast<double>(done) / static_cast<double>(loader->batches());
      if (watch && !watch((static_cast<double>(view) + part) / static_cast<double>(views.size()))) return {};
    }
    bad = loader->bad();
  }

  ExactSum loss;
  for (std::size_t index = 0; index < samples; ++index) {
    if (!seen[index]) continue;
    const std::span<float> mean(sums.data() + index * classes, classes);
    for (float& share : mean) share /= static_cast<float>(views.size());
    const std::int64_t label = dataset.label(split, static_cast<std::int64_t>(index));
    predictions.add(static_cast<std::int64_t>(index), dataset.name(split, static_cast<std::int64_t>(index)), mean,
                    label);
    loss.add(-std::log(static_cast<double>(std::max(mean[label], std::numeric_limits<float>::min()))));
  }
  Evaluation evaluation = evaluation_of(predictions);
  const std::int64_t known = evaluation.samples();
  if (known > 0) evaluation.add_loss(loss.value() / static_cast<double>(known), known);
  return evaluation;
}

}  // namespace neurim
