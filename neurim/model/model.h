// A model: a network and what one must know to feed it.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/nn/layer.h"

namespace neurim {

/// Regression: what each output is multiplied by outside of training, and what is added to it then, which makes it a
/// number in the units of the data. They are those of the targets in training, and so the scale of the loss.
struct TargetScale {
  std::vector<double> std = {},                               ///< of each target
      mean = {};                                              ///< the same
  bool empty() const { return std.empty() && mean.empty(); }  ///< there are no targets
};

/// A copy shares the tensors; see clone.
struct Model {
  std::string name;          ///< "resnet18"
  std::int64_t image_size;   ///< height and width of the images it was made for; 0: it is one of recurrent_models.h
  std::int64_t in_chans,     ///< channels of its images
      num_classes;           ///< logits of a sample
  std::vector<double> mean,  ///< of each input channel, for pixels scaled to [0, 1]
      std;                   ///< the same
  nn::Layer net;             ///< x(N,in_chans,H,W) -> logits (N,num_classes)
  double temperature = 1;    ///< what logits are divided by outside of training (Guo et al., 2017)
  TargetScale targets = {};  ///< empty unless it is one of regression
  bool gives_units = false;  ///< the net does that itself, as one of a function file
  /// What another library calls a tensor of the net, where it differs; load_model knows both.
  std::map<std::string, std::string> other_names = {};
  /// What older files of the same library call a tensor, where it differs.
  std::map<std::string, std::string> older_names = {};
  /// How names begin that files may have beyond the net's: of classifiers for training alone, which are left out here.
  std::vector<std::string> passed_over = {};
  /// How names end of tensors that follow from the net's design, and what they are. Some files have them, others do
  /// not; they may not have others.
  std::map<std::string, Tensor> computed = {};
  std::string source = {};  ///< the text of the model file that it was built from

  void parts(Parts& p) { net.parts(p); }
  /// Throws Error(usage) in a trace for training where the net reads a parameter that its parts() leave out: it would
  /// be neither trained nor saved.
  Tensor operator()(const Tensor& x) const;
};

/// Values f32(n) beside the columns of what is computed; constants where that is traced.
Tensor row_of(const std::vector<double>& values, Device device);

/// Values of each channel for a model of `channels`: as they are, or for another number of them their average for each.
std::vector<double> per_channel(const std::vector<double>& values, std::int64_t channels);

/// Throws Error(usage) with `option`, "mean" or "std", for values that pixels scaled to [0, 1] cannot have: such as
/// levels up to 255.
void check_scaling(std::string_view option, const std::vector<double>& values);

}  // namespace neurim
