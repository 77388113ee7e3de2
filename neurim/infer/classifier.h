// Naming what images show.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/data/augment.h"
#include "neurim/data/decode.h"
#include "neurim/train/checkpoint.h"

namespace neurim {

/// What a model says of an image.
struct Classification {
  std::string unreadable = {};  ///< why the image cannot be read, with its name; "": it can
  /// Of each class, or what the model says of each target, where it gives numbers; none where the image cannot be read.
  std::vector<double> probabilities = {};
  /// The classes by falling probability; of a multi-label model those that reach their thresholds;
  /// of numbers none.
  std::vector<std::size_t> classes = {};
  bool rejected = false;  ///< no class is as likely as ClassifierOptions::reject_below
};

/// How a classifier runs.
struct ClassifierOptions {
  PlanOptions plan = {};              ///< of it arithmetic, kernels and the device count
  std::int64_t batch = 16;            ///< images that run at once, at most
  std::int64_t workers = 0;           ///< threads that read images while others run; 0: as many as compute
  double reject_below = 0;            ///< of models of one class an image; 0: nothing is rejected
  std::vector<Augment> views = {{}};  ///< of each image, of which probabilities are averaged: parse_views
};

/// A model of images with all that is done to them: decoding, Preprocess, the network, softmax or sigmoid, thresholds.
/// Copies share all of it; safe from many threads.
class ImageClassifier {
 public:
  /// Throws Error(usage) for a model of series or texts, and for a batch or workers out of range.
  explicit ImageClassifier(const Checkpoint& checkpoint, const ClassifierOptions& options = {});
  /// The same of what load_checkpoint opens: a run, weights, a folder of timm or Hugging Face, a function, an ONNX
  /// file.
  static ImageClassifier open(const fs::path& path, const ClassifierOptions& options = {});

  const std::vector<std::string>& class_names() const;  ///< in the order of Classification::probabilities
  const ModelConfig& config() const;                    ///< of the model

  /// Tells what the files show, one after the other in their order, from this thread: `number` counts them from 0.
  /// Throws Error(data) with the name of an image for which the model gives NaN.
  void predict(std::span<const fs::path> images,
               const std::function<void(std::size_t number, const Classification&)>& answer) const;
  /// The same in a list.
  std::vector<Classification> predict(std::span<const fs::path> images) const;
  /// The same of files' bytes or decoded pixels in memory; an image is called by its number.
  std::vector<Classification> predict(std::span<const StoredImage> images) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace neurim
