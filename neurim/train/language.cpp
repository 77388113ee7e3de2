#include "neurim/train/language.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/core/random.h"
#include "neurim/evaluate/bigram.h"
#include "neurim/model/inference.h"
#include "neurim/train/step.h"

namespace neurim {

namespace {

/// The mean over the evaluated characters; NaN if there are none.
double bigram_bits(const LanguageData& data, Split split) {
  const std::span<const std::int32_t> characters = data.corpus.characters;
  const Bigram bigram(characters.first(data.windows.training_steps()), data.corpus.vocabulary.size());
  double bits = 0;
  std::int64_t count = 0;
  for (std::int64_t sample = 0; sample < data.windows.size(split); ++sample) {
    const auto first = static_cast<std::size_t>(data.windows.first_target(split, sample));
    for (std::size_t at = first; at < first + static_cast<std::size_t>(data.windows.options().targets); ++at, ++count)
      bits += bigram.bits(characters[at - 1], characters[at]);
  }
  return bits / static_cast<double>(count);
}

/// Samples a row index in proportion to exp(logit / temperature).
std::int64_t drawn(std::span<const float> logits, double temperature, Random& random) {
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    fail(Fault::failure,
         "the model's logits are not finite; its weights are damaged, or it was trained with too high a ",
         "learning rate");
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return best - logits.begin();
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits) sums.push_back(sum += std::exp((logit - *best) / temperature));
  const auto found = std::upper_bound(sums.begin(), sums.end(), random.uniform() * sum);
  return std::min(found, sums.end() - 1) - sums.begin();
}

}  // namespace

void LanguageData::copy(Split split, std::span<const std::int64_t> samples, std::vector<std::int64_t>& characters,
                        std::vector<std::int64_t>& next) const {
  characters.clear();
  next.clear();
  for (const std::int64_t sample : samples) {
    const auto input = corpus.characters.begin() + windows.first_input(split, sample);
    const auto target = corpus.characters.begin() + windows.first_target(split, sample);
    characters.insert(characters.end(), input, input + windows.options().inputs);
    next.insert(next.end(), target, target + windows.options().targets);
  }
}

LanguageValidation::LanguageValidation(const Model& model, const LanguageData& data, Split split,
                                       const TrainOptions& options)
    : data_(data),
      split_(split),
      batch_(*options.batch),
      bigram_bits_(bigram_bits(data, split)),
      plans_(language_validation_step(model),
             {.deterministic = options.deterministic, .device = device_named(options.device)}) {}

std::optional<Metrics> LanguageValidation::run(const TrainingTask::Watch& watch) {
  loss_ = {}, right_ = 0;
  const std::int64_t samples = data_.windows.size(split_), window = data_.windows.options().inputs;
  std::vector<std::int64_t> batch;
  for (std::int64_t first = 0; first < samples; first += batch_) {
    const std::int64_t size = std::min(batch_, samples - first);
    batch.resize(size);
    std::iota(batch.begin(), batch.end(), first);
    data_.copy(split_, batch, characters_, next_);
    const Plan& plan = plans_.plan_for({{DType::i64, {size, window}}, {DType::i64, {size, window}}});
    plan.inputs()[0].write(characters_.data());
    plan.inputs()[1].write(next_.data());
    plan.run(plan.inputs(), plan.outputs());
    losses_.resize(next_.size());
    plan.outputs()[0].read(losses_.data());
    for (const float loss : losses_) loss_.add(loss);
    right_ += plan.outputs()[1].item();
    const bool go_on = !watch || watch(static_cast<double>(first + size) / static_cast<double>(samples));
    if (!go_on && first + size < samples) return {};
  }
  const std::int64_t count = samples * window;
  return Metrics(language_task(), count,
                 {{"loss", loss_.mean()},
                  {"bits_per_character", loss_.mean() / std::numbers::ln2},
                  {"bigram_bits_per_character", bigram_bits_},
                  {"top1", right_ / static_cast<double>(count)}});
}

std::vector<HeadlineMetric> LanguageValidation::headline() const {
  return headline_metrics(loss_, right_ / static_cast<double>(loss_.samples()), bigram_bits_);
}

Vocabulary vocabulary_of(const ModelConfig& config) {
  Vocabulary vocabulary = Vocabulary::of(join(config.class_names, ""), config.model);
  if (vocabulary.size() != std::ssize(config.class_names))
    fail(Fault::data, config.model, ": its ", config.class_names.size(),
         " classes are no characters; use another copy");
  return vocabulary;
}

std::string usual_prompt(const ModelConfig& config) {
  const std::vector<std::string>& known = config.class_names;
  return std::find(known.begin(), known.end(), "\n") == known.end() ? known.front() : "\n";
}

std::string generate(const Checkpoint& checkpoint, std::string_view prompt, const GenerateOptions& options) {
  const ModelConfig& config = checkpoint.config;
  require(config.task().answer == Answer::characters, checkpoint.path.string(), ": is a model of ", config.task().data,
          ", which writes no text");
  require(!prompt.empty(), "prompt is empty; give the text to go on with: prompt=\"…\"");
  require(options.length >= 0, "length is ", options.length, "; it is not negative");
  require(std::isfinite(options.temperature) && options.temperature >= 0, "temperature is ", options.temperature,
          "; it is not negative");
  const Vocabulary vocabulary = vocabulary_of(config);
  std::vector<std::int32_t> characters = vocabulary.encode(prompt, "prompt");
  const std::size_t begin = characters.size(), size = vocabulary.size();
  const auto window = static_cast<std::size_t>(config.sequence->window);
  const Plan planned = inference_plan(checkpoint.model, {DType::i64, {1, config.sequence->window}});
  std::vector<std::int64_t> seen(window);  // positions after the last character do not influence it
  std::vector<float> logits(window * size);
  Random random(options.seed);
  for (std::int64_t i = 0; i < options.length; ++i) {
    const std::size_t count = std::min(window, characters.size());
    std::copy(characters.end() - static_cast<std::ptrdiff_t>(count), characters.end(), seen.begin());
    planned.inputs()[0].write(seen.data());
    planned.run(planned.inputs(), planned.outputs());
    planned.outputs()[0].read(logits.data());
    const auto last = std::span(logits).subspan((count - 1) * size, size);
    characters.push_back(static_cast<std::int32_t>(drawn(last, options.temperature, random)));
  }
  return vocabulary.decode({characters.begin() + static_cast<std::ptrdiff_t>(begin), characters.end()});
}

}  // namespace neurim
