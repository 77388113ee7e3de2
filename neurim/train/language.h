// Texts by character: samples, evaluation of a language model, and generation.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/data/sequences/corpus.h"
#include "neurim/data/sequences/windows.h"
#include "neurim/evaluate/headline.h"
#include "neurim/train/training_task.h"

namespace neurim {

/// A text and its samples.
struct LanguageData {
  Corpus corpus;    ///< the text
  Windows windows;  ///< the samples

  /// Copies samples of a split: their characters (samples,window), and the next one after each.
  void copy(Split split, std::span<const std::int64_t> samples, std::vector<std::int64_t>& characters,
            std::vector<std::int64_t>& next) const;
};

/// Evaluates a language model on a split, any number of times; later changes of its weights are seen.
class LanguageValidation {
 public:
  /// `options` are resolved. The data outlive it.
  LanguageValidation(const Model& model, const LanguageData& data, Split split, const TrainOptions& options);
  /// Nothing if `watch` ended it. Each character is predicted from those before it in its window, at least one. The
  /// Bigram is that of the text's training part, evaluated on the same characters.
  std::optional<Metrics> run(const TrainingTask::Watch& watch = {});
  /// Those of the last run with their intervals, as if characters did not depend on each other.
  std::vector<HeadlineMetric> headline() const;

 private:
  const LanguageData& data_;
  Split split_;
  std::int64_t batch_;
  double bigram_bits_;
  Compiled plans_;
  std::vector<std::int64_t> characters_, next_;
  std::vector<float> losses_;
  SampleMean loss_;  // of each character, in nats
  double right_ = 0;
};

/// The characters that a model knows.
Vocabulary vocabulary_of(const ModelConfig& config);
/// The default start of a text: a line break, or the first character if the model knows none.
std::string usual_prompt(const ModelConfig& config);

/// Options of generate().
struct GenerateOptions {
  std::int64_t length = 200;  ///< characters to write
  /// Divides the logits: 1 samples the model's distribution, less favours likely characters, 0 takes the likeliest.
  double temperature = 0.8;
  std::uint64_t seed = 1;  ///< of the sampling
};

/// Generates text after `prompt`, which the result does not contain: character by character, each sampled given the
/// window before it. The same seed gives the same text. Throws Error(usage) on an empty prompt, options out of range,
/// or a model that is no language model; Error(data) if the prompt is no UTF-8 or has a character that the model does
/// not know.
std::string generate(const Checkpoint& checkpoint, std::string_view prompt, const GenerateOptions& options = {});

}  // namespace neurim
