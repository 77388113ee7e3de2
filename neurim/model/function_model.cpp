#include "neurim/model/function_model.h"

#include "neurim/base/error.h"
#include "neurim/graph/value.h"

namespace neurim {

FunctionLayer::FunctionLayer(Function function) : function_(std::move(function)) {
  const Graph& graph = function_.graph;
  require(graph.inputs.size() == 1 && graph.outputs.size() == 1, "function: it has ", graph.inputs.size(),
          " inputs and ", graph.outputs.size(), " outputs, and a model has one of each");
  for (const auto& [name, tensor] : stored_tensors(graph))
    for (std::size_t v = 0; v < graph.values.size(); ++v)
      if (const Tensor& captured = graph.values[v].captured;
          captured && captured.value() == tensor.value() && !tensor.value()->constant)
        stored_.emplace_back(name, static_cast<int>(v));
}

void FunctionLayer::parts(Parts& p) {
  for (const auto& [name, value] : stored_) {
    Tensor& tensor = function_.graph.values[value].captured;
    p(name, tensor, tensor.value()->parameter && !tensor.value()->state ? Role::weight : Role::state);
  }
}

Model model_of(const Function& function, const std::string& name) {
  FunctionLayer layer(function);
  const Shape in = function.input_ports()[0].type.shape, out = function.output_ports()[0].type.shape;
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
