// Layers by name, for networks that are written in files: neurim/model/model_file.h.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/graph/op.h"
#include "neurim/nn/layer.h"

namespace neurim::nn {

/// The options of a layer, and the layer that they make.
class NamedLayer {
 public:
  virtual ~NamedLayer() = default;
  virtual void fields(Fields& f) = 0;  ///< visits the options, each with its default as the value
  /// The layer for inputs like x. Throws Error(usage) where it takes no such input, or an option cannot be.
  virtual Layer build(const Type& x) const = 0;
};
/// Makes the options of a layer, each with its default.
using LayerFactory = std::unique_ptr<NamedLayer> (*)();

/// See define_layer.
template <class T>
class NamedAs final : public NamedLayer {
 public:
  void fields(Fields& f) override {
    if constexpr (requires(T& options) { options.fields(f); }) options_.fields(f);
  }
  Layer build(const Type& x) const override {
    if constexpr (requires(const T& options) { options.build(x); })
      return options_.build(x);
    else
      return options_;
  }

 private:
  T options_{};
};

/// The LayerFactory of NamedAs<T>.
template <class T>
LayerFactory layer_factory() {
  return []() -> std::unique_ptr<NamedLayer> { return std::make_unique<NamedAs<T>>(); };
}

/// Makes a layer known by name. Throws Error(usage) where there is one of that name.
void define_layer(std::string name, LayerFactory factory);

/// T is a layer whose members are its options; or a struct of options with `Layer build(const Type& x)
/// const`, the layer for inputs like x, which is told what cannot be known alone: sizes of weights follow
/// from x. Both list their options in `void fields(Fields&)`, where they have any.
template <class T>
void define_layer(std::string name) {
  define_layer(std::move(name), layer_factory<T>());
}

/// Null for an unknown name.
std::unique_ptr<NamedLayer> make_layer(std::string_view name);
/// The known names, sorted: those of the layers of nn/ with one input, and what was defined.
std::vector<std::string> layer_names();

}  // namespace neurim::nn
