#include "neurim/model/function_model.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/function/image_layout.h"
#include "neurim/graph/value.h"

namespace neurim {

FunctionLayer::FunctionLayer(Function function) : function_(std::move(function)) {
  const Graph& graph = function_.graph;
  require(graph.inputs.size() == 1 && graph.outputs.size() == 1, "function: it has ", graph.inputs.size(),
          " inputs and ", graph.outputs.size(), " outputs, and a model has one of each");
  for (const auto& [name, tensor] : stored_tensors(graph)) {
    if (tensor.value()->constant) continue;
    const auto at = std::find_if(graph.values.begin(), graph.values.end(),
                                 [&tensor = tensor](const Graph::Value& value) {
                                   return value.captured && value.captured.value() == tensor.value();
                                 });
    if (at != graph.values.end())
      stored_.emplace_back(name, static_cast<int>(at - graph.values.begin()));
    else
      inner_.emplace_back(name, tensor);
  }
}

void FunctionLayer::parts(Parts& p) {
  const auto visit = [&](const std::string& name, Tensor& tensor) {
    p(name, tensor, is_learnt(tensor) ? Role::weight : Role::state);
  };
  for (const auto& [name, value] : stored_) visit(name, function_.graph.values[value].captured);
  for (auto& [name, tensor] : inner_) visit(name, tensor);
}

Tensor FunctionLayer::operator()(const Tensor& x) const {
  return function_({takes_channels_last(function_.metadata) ? channels_last(x) : x})[0];
}

Model model_of(const Function& function, const std::string& name) {
  FunctionLayer layer(function);
  Shape in = function.input_ports()[0].type.shape;
  if (takes_channels_last(function.metadata) && in.rank() == 4) in = {in[0], in[3], in[1], in[2]};
  const Shape out = function.output_ports()[0].type.shape;
  require(in.rank() >= 2 && out.rank() >= 1 && !out[-1].symbolic(), "function: it takes ", in, " and gives ", out,
          "; a model takes (N,C,…) and gives as many numbers as it has classes");
  const auto number = [](Dim size) { return size.symbolic() ? std::int64_t{0} : std::int64_t{size}; };
  return {.name = name,
          .image_size = in.rank() == 4 ? number(in[2]) : 0,
          .in_chans = in.rank() == 4 ? number(in[1]) : 0,
          .num_classes = out[-1],
          .mean = {},
          .std = {},
          .net = std::move(layer)};
}

}  // namespace neurim
