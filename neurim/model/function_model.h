// A function as a model.
#pragma once
#include "neurim/function/function.h"
#include "neurim/model/model.h"

namespace neurim {

/// A function of one input and one output as a layer: its parameters and states are the parts, under their names. It
/// computes as it was traced: a batch norm keeps its statistics in training too. As a layer it takes images (N,C,H,W),
/// also where the function takes (N,H,W,C).
class FunctionLayer {
 public:
  /// Throws Error(usage) for another number of inputs or outputs.
  explicit FunctionLayer(Function function);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

 private:
  Function function_;
  std::vector<std::pair<std::string, int>> stored_;    // parameters and states: names, and which values of the graph
  std::vector<std::pair<std::string, Tensor>> inner_;  // those that bodies alone read
};

/// The model of a function x(N,C,…), or of images (N,H,W,C), -> (N,classes), called `name`. Throws Error(usage) for
/// another one.
Model model_of(const Function& function, const std::string& name);

}  // namespace neurim
