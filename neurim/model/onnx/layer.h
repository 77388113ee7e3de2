// An ONNX model as a model.
#pragma once
#include "neurim/model/model.h"
#include "neurim/model/onnx/model.h"

namespace neurim {

/// What the values of a classifier's output are.
enum class OnnxScores : std::uint8_t { logits, softmax, sigmoid };

/// A classifier of an ONNX file as a layer: one input x(N,C,H,W), which is turned where the file takes (N,H,W,C), cast
/// to the element type of the file, and one output of classes for each image, which becomes (N,classes) logits: of
/// probabilities their logarithms. A file that takes a fixed number of images takes others in groups of that number. Of
/// a model that was read for training its weights are the parts, under their names.
class OnnxLayer {
 public:
  /// Traces the model once for one image (C,H,W). Throws Error(data) for a model that is no such classifier or that has
  /// no plan.
  OnnxLayer(OnnxModel model, const Shape& image);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  const OnnxModel& model() const { return model_; }  ///< as it was read
  std::int64_t classes() const { return classes_; }  ///< of the output
  OnnxScores scores() const { return scores_; }      ///< what the file gives

 private:
  /// The output for x, (N,classes) as the file gives it.
  Tensor output(const Tensor& x) const;

  OnnxModel model_;
  std::vector<OnnxWeight> weights_;
  std::int64_t group_ = 0;  // the number of images that the file takes; 0: any
  std::int64_t classes_ = 0;
  OnnxScores scores_ = OnnxScores::logits;
  bool channels_last_;  // the file takes (N,H,W,C)
};

/// Whether the file takes images (N,H,W,C): it says so in its metadata, or it says nothing of itself and the last of
/// its sizes alone can be the channels, 1, 3 or 4.
bool takes_channels_last(const OnnxModel& model);

/// The size of the images that the file describes, (C,H,W); sizes that it leaves open are those of `otherwise`. Throws
/// Error(data) where it takes something else than floating images.
Shape image_of(const OnnxModel& model, const Shape& otherwise);

}  // namespace neurim
