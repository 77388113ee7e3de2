#include "neurim/train/step.h"

#include "neurim/base/error.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/argmax.h"
#include "neurim/ops/binary_cross_entropy.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/losses/l1_loss.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reduce_min.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"

namespace neurim {

namespace {

Tensor logits_of(const Model& model, const Tensor& images) {
  const Tensor logits = model(images);
  const Shape wanted{images.shape()[0], model.num_classes};
  require(logits.shape() == wanted, model.name, ": the network gives ", logits.shape(), " for ", images.shape()[0],
          " images, but a classifier of its ", model.num_classes, " classes gives ", wanted, "; change its last layer");
  return logits;
}

/// The logits of each character as rows, and the next characters.
std::pair<Tensor, Tensor> next_characters(const Model& model, const Tensors& in) {
  const std::int64_t places = in[1].numel();
  return {reshape(model(in[0]), {places, model.num_classes}), reshape(in[1], {places})};
}

/// The loss of each error.
Tensor number_loss(const Tensor& error, NumberLoss loss) {
  switch (loss) {
    case NumberLoss::mse: return square(error);
    case NumberLoss::l1: return abs(error);
    case NumberLoss::huber: return huber_loss(error, broadcast_to(scalar_like(error, 0), error.shape()), 1, "none");
  }
  return {};
}

/// The number of rows whose largest logit is the target's.
Tensor right(const Tensor& logits, const Tensor& target) {
  return sum(cast(equal(argmax(logits, 1), target), DType::f32));
}

}  // namespace

std::function<Tensors(Tensors)> training_step(const Model& model, Optimizer& optimizer,
                                              const CrossEntropyOptions& loss_options, const Tensor& class_weights) {
  return [model, &optimizer, loss_options, class_weights](const Tensors& in) -> Tensors {
    const Tensor logits = logits_of(model, in[0]);
    const auto samples = static_cast<double>(std::int64_t{in[0].size(0)});
    if (in[1].dtype() == DType::f32) {
      const double smoothing = loss_options.label_smoothing;
      const Tensor target = smoothing > 0 ? in[1] * (1 - smoothing) + smoothing / 2 : in[1];
      const Tensor loss = binary_cross_entropy(logits, target, "mean", class_weights);
      optimizer.minimize(loss, samples);
      // Above 0 if logit and target are on the same side.
      const Tensor least = reduce_min(logits * (in[1] - 0.5), {1});
      return {loss, sum(cast(greater(least, scalar_like(least, 0)), DType::f32))};
    }
    Tensor loss = cross_entropy(logits, in[1], loss_options, class_weights);
    if (in.size() == 4) {
      const Tensor of_partner = cross_entropy(logits, in[2], loss_options, class_weights);
      loss = add(of_partner, mul(in[3], sub(loss, of_partner)));
    }
    optimizer.minimize(loss, samples);
    return {loss, right(logits, in[1])};
  };
}

std::function<Tensors(Tensors)> validation_step(const Model& model) {
  return [model](const Tensors& in) -> Tensors {
    const Tensor logits = logits_of(model, in[0]);
    return {logits, in[1].dtype() == DType::f32 ? mean(binary_cross_entropy(logits, in[1], "none"), {1})
                                                : cross_entropy(logits, in[1], {.reduction = "none"})};
  };
}

std::function<Tensors(Tensors)> regression_training_step(const Model& model, Optimizer& optimizer, NumberLoss loss) {
  return [model, &optimizer, loss](const Tensors& in) -> Tensors {
    // Outside of training the model gives units of the data; here it gives stds from the mean.
    const Tensor std = row_of(model.targets.std, in[1].device()), mean_of = row_of(model.targets.mean, in[1].device());
    const Tensor error = logits_of(model, in[0]) - (in[1] - mean_of) / std;
    const Tensor of_batch = mean(number_loss(error, loss));
    optimizer.minimize(of_batch, static_cast<double>(std::int64_t{in[0].size(0)}));
    return {of_batch, sum(mean(abs(error) * std, {1}))};
  };
}

std::function<Tensors(Tensors)> regression_validation_step(const Model& model, NumberLoss loss) {
  return [model, loss](const Tensors& in) -> Tensors {
    const Tensor numbers = logits_of(model, in[0]);
    return {numbers, mean(number_loss((numbers - in[1]) / row_of(model.targets.std, in[1].device()), loss), {1})};
  };
}

std::function<Tensors(Tensors)> forecast_training_step(const Model& model, Optimizer& optimizer, double std) {
  return [model, &optimizer, std](const Tensors& in) -> Tensors {
    const Tensor error = model(in[0]) - in[1];
    const Tensor loss = mean(square(cast(error * (1 / std), DType::f32)));
    optimizer.minimize(loss, static_cast<double>(std::int64_t{in[0].size(0)}));
    return {loss, sum(mean(abs(error), {1}))};
  };
}

std::function<Tensors(Tensors)> language_training_step(const Model& model, Optimizer& optimizer) {
  return [model, &optimizer](const Tensors& in) -> Tensors {
    const auto [logits, next] = next_characters(model, in);
    const Tensor loss = cross_entropy(logits, next);
    optimizer.minimize(loss, static_cast<double>(std::int64_t{in[0].size(0)}));
    return {loss, right(logits, next) * (1 / static_cast<double>(in[1].size(1)))};
  };
}

std::function<Tensors(Tensors)> language_validation_step(const Model& model) {
  return [model](const Tensors& in) -> Tensors {
    const auto [logits, next] = next_characters(model, in);
    return {cross_entropy(logits, next, {.reduction = "none"}), right(logits, next)};
  };
}

Types batch_types(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width, bool mixed) {
  Types types{{DType::f32, {batch, channels, height, width}}, {DType::i64, {batch}}};
  if (mixed) types.insert(types.end(), {{DType::i64, {batch}}, {DType::f32, {}}});
  return types;
}

Types target_types(std::int64_t batch, std::int64_t channels, std::int64_t height, std::int64_t width,
                   std::int64_t targets) {
  return {{DType::f32, {batch, channels, height, width}}, {DType::f32, {batch, targets}}};
}

}  // namespace neurim
