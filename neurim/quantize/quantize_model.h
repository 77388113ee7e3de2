// Quantizes a trained classifier so that it stays as accurate as asked.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "neurim/quantize/quantized.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/trainer.h"
#include "neurim/train/validation.h"

namespace neurim {

/// How a classifier is quantized.
struct QuantizeOptions {
  TrainOptions options = {};           ///< resolved ones, for reading images
  Split split = Split::val;            ///< on which accuracy is measured
  std::int64_t images = 512;           ///< of the training split, for ranges; of `split` where there is none
  double max_drop = 0.5;               ///< of top-1 or mAP, in points of 100
  std::optional<RangeMethod> method;   ///< by default that whose logits differ least
  std::optional<bool> equalize;        ///< the same
  DType activations = DType::u8;       ///< see ByteOptions
  DType others = DType::f32;           ///< the same: what layers are in that 8 bits do not suit
  std::vector<std::string> keep = {};  ///< layers that are never in fewer bits
  int weights_only = 0;                ///< 8 or 4: weights_quantized; 0: activations in 8 bits too
  std::int64_t group = 32;             ///< of weights_only
  std::int64_t qat_epochs = 0;         ///< of training that knows of the rounding, before it is measured; 0: none
  std::optional<double> qat_lr = {};   ///< its learning rate; unset: a hundredth of the training's
  fs::path qat_run = {};               ///< the folder of that run
  fs::path statistics = {};            ///< a file of statistics to use where it is there, else to write; "": none
};

/// A layer as it became.
struct QuantizedLayer {
  std::string name;                ///< see QuantLayer
  bool bytes = false;              ///< whether it is in fewer bits
  std::int64_t multiply_adds = 0;  ///< of one sample
  double error = 0;                ///< of the logits where it alone is in fewer bits, as a share of their variance
  Range range;                     ///< of what it reads
  ByteScale scale;                 ///< the same
};

/// What quantize_model has made.
struct QuantizedModel {
  bool stopped = false;                ///< by TrainControl::stop; the rest is then empty
  bool held = false;                   ///< whether accuracy has dropped by no more than allowed
  Function function;                   ///< with layers in fewer bits
  double before = 0, after = 0;        ///< top-1 or mAP, in [0, 1]
  std::vector<QuantizedLayer> layers;  ///< in the order of the graph
  RangeMethod method = RangeMethod::mse;
  DType others = DType::f32;  ///< of layers that are not in fewer bits
  bool equalized = false;
  int bits = 8;             ///< of weights
  std::int64_t images = 0;  ///< that ranges are of
};

/// Measures the checkpoint, quantizes all layers, after training them for it with `qat_epochs`, and measures again.
/// Where accuracy drops by more than allowed, layers become `others` again: as few of those that change the logits most
/// as hold it, then each of these is tried in fewer bits once more. Not held: even one layer in fewer bits drops too
/// much. `tell` gets a line on each step, `control` is of the training. Throws Error(usage) for a model of series or
/// texts and for layers in `keep` that there are not, Error(failure) for numbers that are not finite.
QuantizedModel quantize_model(const Checkpoint& checkpoint, const Dataset& dataset, const QuantizeOptions& options,
                              const std::function<void(const std::string&)>& tell = {},
                              const TrainControl& control = {});

/// Columns layer, precision, multiply_adds, logit_error, low, high, scale and zero_point.
std::string layers_csv(const QuantizedModel& model);

}  // namespace neurim
