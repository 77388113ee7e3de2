// A model that answers: opened once, called from any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/function/image_layout.h"
#include "neurim/model/onnx/model.h"
#include "neurim/train/checkpoint.h"

namespace neurim {

/// A model for inference: of an ONNX file, a function, or a checkpoint. It plans itself for each signature of inputs
/// and keeps the plans used last. Where an ONNX model needs numbers to go on that only its data give (the shape of a
/// result, the condition of a loop), it runs op by op for that signature. Copies share all of it; safe from many
/// threads.
class InferenceSession {
 public:
  /// Of the options those of arithmetic, kernels and the device count. At most `most_plans` signatures are kept.
  /// `layout`: nhwc takes the inputs of four axes, (N,C,H,W), as (N,H,W,C); one of a checkpoint is its model's.
  explicit InferenceSession(const OnnxModel& model, const PlanOptions& options = {}, std::size_t most_plans = 16,
                            InputLayout layout = InputLayout::model);
  explicit InferenceSession(Function function, const PlanOptions& options = {}, std::size_t most_plans = 16,
                            InputLayout layout = InputLayout::model);  ///< the same
  /// The same of a model with one input, on the device where it lies.
  explicit InferenceSession(const Checkpoint& checkpoint, const PlanOptions& options = {}, std::size_t most_plans = 16,
                            InputLayout layout = InputLayout::model);
  /// Opens a file or a run by its name: *.onnx, else what load_checkpoint opens. A file that takes images (N,H,W,C)
  /// already is given them with either layout.
  static InferenceSession open(const fs::path& path, const PlanOptions& options = {}, std::size_t most_plans = 16,
                               InputLayout layout = InputLayout::model);

  const std::vector<OnnxPort>& inputs() const;   ///< in the order of the call
  const std::vector<OnnxPort>& outputs() const;  ///< in the order of the results

  /// The outputs. Throws Error(usage) with both sides where the values are not those of the inputs.
  OnnxValues run(const OnnxValues& in) const;
  /// The same of tensors alone.
  Tensors run(const Tensors& in) const;
  /// Why inputs of these types run op by op; "" where they have a plan. Plans them.
  std::string eager_because(const Types& inputs) const;
  /// The types of the outputs for inputs of these types; none where these run op by op.
  Types output_types(const Types& inputs) const;

 private:
  struct Stage;

  std::vector<std::shared_ptr<Stage>> stages_;  // the outputs of each are the inputs of the next
};

}  // namespace neurim
