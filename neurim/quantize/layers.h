// A model as what is quantized of it: its products with weights.
#pragma once
#include <string>
#include <vector>

#include "neurim/function/function.h"

namespace neurim {

/// A convolution or a fully connected layer.
struct QuantLayer {
  std::string name;                ///< "layer1.0.conv1": that of its weight
  std::size_t node = 0;            ///< in the graph
  int x = -1, weight = -1;         ///< values of the graph
  int beside = -1;                 ///< what is added right behind a convolution, of its shape; -1: nothing
  std::size_t add = 0;             ///< the node that adds it
  std::int64_t multiply_adds = 0;  ///< of one sample
};

/// The inference graph of a model: constants folded, batch norms within the convolutions.
struct FloatModel {
  Function function;               ///< the graph with its names and metadata
  std::vector<QuantLayer> layers;  ///< in the order of the graph
};

/// Takes the products of f32 whose weights are constants. Throws Error(usage) where there are none.
FloatModel float_model(Function function);

}  // namespace neurim
