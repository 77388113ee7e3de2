// Texts by their characters: samples, how well a model knows what comes next, and new text.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/data/sequences/corpus.h"
#include "neurim/data/sequences/windows.h"
#include "neurim/train/training_task.h"

namespace neurim {

/// A text and its samples.
struct LanguageData {
  Corpus corpus;
  Windows windows;

  /// Of some samples of a split: their characters (samples,window), and the one behind each of these.
  void copy(Split split, std::span<const std::int64_t> samples, std::vector<std::int64_t>& characters,
            std::vector<std::int64_t>& next) const;
};

/// Runs a language model over a split as often as wanted; sees later changes of its weights.
class LanguageValidation {
 public:
  /// `options` are resolved ones. The data outlive it.
  LanguageValidation(const Model& model, const LanguageData& data, Split split, const TrainOptions& options);
  /// Nothing where `watch` ended it. Every character is forecast from those before it in its window, at least
  /// one; the Bigram is that of the text's training part, evaluated by the same characters.
  std::optional<Metrics> run(const TrainingTask::Watch& watch = {});

 private:
  const LanguageData& data_;
  Split split_;
  std::int64_t batch_;
  double bigram_bits_;
  Compiled plans_;
  std::vector<std::int64_t> characters_, next_;
  std::vector<float> losses_;
};

/// The characters that a model knows.
Vocabulary vocabulary_of(const ModelConfig& config);
/// What a text may begin with: a line break, or the first character where the model knows none.
std::string usual_prompt(const ModelConfig& config);

struct GenerateOptions {
  std::int64_t length = 200;  ///< characters to write
  /// What the logits are divided by: 1 draws as the model says, less takes what is likely more often, 0 takes
  /// the likeliest.
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

/// Text that goes on behind `prompt`, without it: drawn character by character, each from the window before
/// it. The same seed gives the same text. Throws Error(usage) on an empty prompt, on options out of range and
/// where the model is none of texts, Error(data) where the prompt is no UTF-8 or has a character that the
/// model does not know.
std::string generate(const Checkpoint& checkpoint, std::string_view prompt, const GenerateOptions& options = {});

}  // namespace neurim
