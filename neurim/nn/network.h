// Layers of which each may take the result of any before it.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "neurim/nn/layer.h"

namespace neurim::nn {

/// Makes one tensor of several.
using Join = std::function<Tensor(const Tensors& x)>;

/// What a list of layers alone cannot say: results that are used later, or twice. They are numbered: 0 is the
/// network's input, and each layer and join that is added gives the next. The last one is the network's.
class Network {
 public:
  /// Adds a layer, which takes result number `from`; its parameters are named "name.weight", … Throws Error(usage) when
  /// there is no such result yet.
  Network& add(std::string name, Layer layer, std::size_t from);
  /// Adds a join of the results numbered `from`. Throws Error(usage) when one of them is not there yet.
  Network& join(Join join, std::vector<std::size_t> from);

  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< gives the last result; x itself without layers

 private:
  struct Step {
    std::string name;
    std::optional<Layer> layer;
    Join join;
    std::vector<std::size_t> from;
  };
  std::vector<Step> steps_;
};

}  // namespace neurim::nn
