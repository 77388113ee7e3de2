// The names that timm (github.com/huggingface/pytorch-image-models) gives to the tensors of nets that
// torchvision has too.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "neurim/nn/layer.h"

namespace neurim::zoo {

/// Begins of tensors' names, each up to a dot or to the end: torchvision's, and timm's for it.
using Renames = std::map<std::string, std::string, std::less<>>;

/// The same table from timm's names to torchvision's.
Renames reversed(const Renames& names);

/// The name with the longest begin that the table has replaced; where it has none, the name.
std::string renamed(const std::string& name, const Renames& names);

/// A net whose tensors have the names that a table gives them.
struct Renamed {
  nn::Layer net;
  Renames names;

  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const { return net(x); }
};

/// Adds an inverted residual, `begin` here and `timm` there. `layers` are its convolutions and norms by
/// turns: one that expands, where it has any, a depthwise one and one that projects. `squeeze` is its
/// SqueezeExcitation.
void add_inverted_residual(Renames& names, const std::string& begin, const std::string& timm,
                           const std::vector<std::string>& layers, const std::string& squeeze = {});

}  // namespace neurim::zoo
