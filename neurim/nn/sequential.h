// Layers one after the other.
#pragma once
#include <concepts>
#include <vector>

#include "neurim/nn/layer.h"

namespace neurim::nn {

/// Feeds each layer's result to the next; parameters are named "0.weight", "1.weight", … by place, with which a
/// layer's errors begin too. Without layers it is the identity.
class Sequential {
 public:
  Sequential() = default;                                                ///< the identity
  Sequential(std::vector<Layer> layers) : layers_(std::move(layers)) {}  ///< in this order
  /// From two or more modules or functions, in this order.
  template <class... Layers>
    requires(sizeof...(Layers) > 1 && (std::constructible_from<Layer, Layers> && ...))
  Sequential(Layers&&... layers) {
    layers_.reserve(sizeof...(Layers));
    (add(std::forward<Layers>(layers)), ...);
  }

  /// One layer alone. A Sequential is copied or moved, not held.
  template <class One>
    requires(!std::derived_from<std::remove_cvref_t<One>, Sequential> && std::constructible_from<Layer, One>)
  explicit Sequential(One&& layer) {
    add(std::forward<One>(layer));
  }

  /// Appends a layer.
  Sequential& add(Layer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }
  std::size_t size() const { return layers_.size(); }  ///< the number of layers

  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< gives the result of the last layer

 private:
  std::vector<Layer> layers_;
};

}  // namespace neurim::nn
