#include "neurim/function/image_layout.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

constexpr const char* kChannelsLast = "nhwc";

}  // namespace

InputLayout input_layout_named(std::string_view name) {
  if (name == kChannelsLast) return InputLayout::nhwc;
  require(name == "model", "input_layout: there is no '", name, "'; known are model, nhwc");
  return InputLayout::model;
}

Shape channels_last(const Shape& images) { return {images[0], images[2], images[3], images[1]}; }

Tensor channels_last(const Tensor& x) { return transpose(x, {0, 2, 3, 1}); }

Tensor channels_first(const Tensor& x) { return transpose(x, {0, 3, 1, 2}); }

Function channels_last(const Function& function, Device device) {
  require(!takes_channels_last(function.metadata), "input_layout: the function takes images (N,H,W,C) already");
  std::vector<Function::Port> inputs = function.input_ports();
  const auto of_images = [](const Function::Port& port) { return port.type.shape.rank() == 4; };
  require(std::any_of(inputs.begin(), inputs.end(), of_images),
          "input_layout: the function takes no images (N,C,H,W), so there is no other order of their axes");
  std::vector<bool> turned;
  for (Function::Port& port : inputs) {
    turned.push_back(of_images(port));
    if (turned.back()) port.type.shape = channels_last(port.type.shape);
  }
  Metadata metadata = function.metadata;
  metadata[kInputLayout] = kChannelsLast;
  return trace_function(
      [&](Tensors in) {
        for (std::size_t i = 0; i < in.size(); ++i)
          if (turned[i]) in[i] = channels_first(in[i]);
        return function(in);
      },
      inputs, function.outputs, metadata, device);
}

bool takes_channels_last(const Metadata& metadata) {
  const auto found = metadata.find(kInputLayout);
  return found != metadata.end() && found->second == kChannelsLast;
}

}  // namespace neurim
