// Training that knows of the rounding to come (Jacob et al., CVPR 2018; Krishnamoorthi, arXiv 1806.08342).
#pragma once
#include <map>

#include "neurim/quantize/quantized.h"
#include "neurim/train/trainer.h"

namespace neurim {

/// A model whose products round as they will in fewer bits, and whose weights and biases learn. Gradients pass the
/// rounding as if it were not there, and end where it cuts a number off (the straight-through estimator).
class AwareModel {
 public:
  /// As quantized() writes it: what layers read has fixed ranges, weights have scales that follow them.
  AwareModel(const FloatModel& model, const Statistics& statistics, const std::vector<bool>& bytes,
             const ByteOptions& options);
  /// Without any rounding.
  explicit AwareModel(const FloatModel& model);
  /// As weights_quantized() writes it with whole ranges.
  AwareModel(const FloatModel& model, int bits, std::int64_t group, const std::vector<bool>& chosen);

  const Function& function() const { return function_; }  ///< whose weights learn
  FloatModel trained() const;                             ///< the model of f32 with the weights as they are now

 private:
  /// `of_input` rounds values that layers read, and those that are added beside them; `of_weight` weights.
  void build(const std::vector<bool>& chosen, const std::function<Tensor(int value, const Tensor& x)>& of_input,
             const std::function<Tensor(const Tensor& weight)>& of_weight);

  const FloatModel model_;
  Function function_;
  std::map<int, Tensor> learnt_;  // by values of the model's graph
};

/// How a model is trained further.
struct FineTuning {
  std::int64_t epochs = 1;
  double lr = 0;  ///< which falls to 0 along a cosine
  fs::path run;   ///< its folder, which may be there already
};

/// Trains the weights of `aware`, made of the checkpoint's model, and leaves the best ones in it. `options` are
/// resolved ones of the checkpoint's training. False where it was stopped.
bool fine_tune(const AwareModel& aware, const Checkpoint& checkpoint, const Dataset& dataset, TrainOptions options,
               const FineTuning& how, const TrainControl& control);

}  // namespace neurim
