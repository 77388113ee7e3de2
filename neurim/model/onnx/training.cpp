#include "neurim/model/onnx/training.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "neurim/base/error.h"
#include "neurim/core/random.h"
#include "onnx/onnx-data.pb.h"

namespace neurim {

namespace {

/// Which inputs of an operator are weights.
struct WeightInputs {
  std::string_view op;
  std::vector<int> learnt, state;
  int least_rank = 1;  ///< of a tensor that counts
};

const std::vector<WeightInputs>& weight_inputs() {
  static const auto& all = *new std::vector<WeightInputs>{{"Conv", {1, 2}, {}},
                                                          {"ConvTranspose", {1, 2}, {}},
                                                          {"Gemm", {1, 2}, {}},
                                                          {"MatMul", {0, 1}, {}, 2},
                                                          {"Einsum", {0, 1}, {}, 2},
                                                          {"BatchNormalization", {1, 2}, {3, 4}},
                                                          {"InstanceNormalization", {1, 2}, {}},
                                                          {"LayerNormalization", {1, 2}, {}},
                                                          {"GroupNormalization", {1, 2}, {}},
                                                          {"RMSNormalization", {1}, {}},
                                                          {"PRelu", {1}, {}},
                                                          {"LSTM", {1, 2, 3}, {}},
                                                          {"GRU", {1, 2, 3}, {}},
                                                          {"RNN", {1, 2, 3}, {}},
                                                          {"Add", {0, 1}, {}},
                                                          {"Mul", {0, 1}, {}},
                                                          {"Gather", {0}, {}, 2},
                                                          {"Transpose", {0}, {}, 2},
                                                          {"Reshape", {0}, {}, 2},
                                                          {"Unsqueeze", {0}, {}},
                                                          {"Concat", {0, 1, 2}, {}, 2}};
  return all;
}

std::int64_t numel(const onnx::TensorProto& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.dims()) count *= size;
  return count;
}

onnx::TensorProto* initializer(onnx::GraphProto& graph, const std::string& name) {
  auto& all = *graph.mutable_initializer();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& tensor) { return tensor.name() == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The last layer: its node, and the initializers of its weight and its bias.
struct Head {
  onnx::TensorProto *weight = nullptr, *bias = nullptr;
  int classes_axis = 0;  ///< of the weight

  explicit operator bool() const { return weight != nullptr; }
};

Head head_of(onnx::GraphProto& graph) {
  static const std::set<std::string_view> passed{"Softmax", "LogSoftmax", "Sigmoid",    "Identity", "Flatten",
                                                 "Reshape", "Squeeze",    "Cast",       "Relu",     "GlobalAveragePool",
                                                 "Dropout", "ReduceMean", "AveragePool"};
  std::map<std::string, onnx::NodeProto*> makers;
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (const std::string& out : node.output()) makers[out] = &node;
  Head head;
  std::string name = graph.output_size() == 1 ? graph.output(0).name() : "";
  for (int steps = 0; steps < graph.node_size(); ++steps) {
    const auto maker = makers.find(name);
    if (maker == makers.end()) return {};
    const onnx::NodeProto& node = *maker->second;
    if (passed.count(node.op_type())) {
      name = node.input(0);
    } else if (node.op_type() == "Add" && node.input_size() == 2 && !head.bias) {
      const int at = initializer(graph, node.input(1)) ? 1 : 0;
      head.bias = initializer(graph, node.input(at));
      if (!head.bias) return {};
      name = node.input(1 - at);
    } else if ((node.op_type() == "Gemm" || node.op_type() == "MatMul" || node.op_type() == "Conv") &&
               node.input_size() >= 2) {
      head.weight = initializer(graph, node.input(1));
      if (node.op_type() != "MatMul" && node.input_size() > 2) head.bias = initializer(graph, node.input(2));
      bool transposed = node.op_type() == "Conv";
      for (const auto& attribute : node.attribute())
        if (attribute.name() == "transB") transposed = attribute.i() != 0;
      if (head.weight) head.classes_axis = transposed ? 0 : head.weight->dims_size() - 1;
      return head;
    } else {
      return {};
    }
  }
  return {};
}

/// Sets the size of an axis and draws the values.
void redraw(onnx::TensorProto& tensor, int axis, std::int64_t classes, double limit, Random& random) {
  const std::string name = tensor.name();
  std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  dims[static_cast<std::size_t>(axis)] = classes;
  tensor.Clear();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t size : dims) tensor.add_dims(size);
  std::string& raw = *tensor.mutable_raw_data();
  for (std::int64_t i = 0, count = numel(tensor); i < count; ++i) {
    const auto value = static_cast<float>(random.uniform(-limit, limit));
    raw.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

}  // namespace

std::vector<OnnxWeight> weights_of(const onnx::GraphProto& graph) {
  std::map<std::string, bool> found;  // the name, and whether it is learnt
  std::map<std::string, const onnx::TensorProto*> floating;
  for (const auto& tensor : graph.initializer())
    if (tensor.data_type() == onnx::TensorProto::FLOAT && tensor.dims_size() >= 1) floating[tensor.name()] = &tensor;
  for (const auto& node : graph.node())
    for (const WeightInputs& row : weight_inputs()) {
      if (row.op != node.op_type() || !(node.domain().empty() || node.domain() == "ai.onnx")) continue;
      const auto add = [&](int input, bool learnt) {
        if (input >= node.input_size()) return;
        const auto tensor = floating.find(node.input(input));
        if (tensor != floating.end() && tensor->second->dims_size() >= row.least_rank &&
            (row.op == "BatchNormalization" || numel(*tensor->second) > 1))
          found[node.input(input)] = learnt;
      };
      for (const int input : row.learnt) add(input, true);
      for (const int input : row.state) add(input, false);
    }
  std::vector<OnnxWeight> weights;
  for (const auto& tensor : graph.initializer())
    if (const auto at = found.find(tensor.name()); at != found.end())
      weights.push_back({.name = tensor.name(), .tensor = {}, .learnt = at->second});
  return weights;
}

void replace_head(onnx::GraphProto& graph, const OnnxTraining& training) {
  if (training.classes == 0) return;
  const Head head = head_of(graph);
  if (!head)
    fail(Fault::data,
         "its last layer is not found: what makes its output is no Gemm, MatMul or Conv with weights of its own");
  const std::int64_t now = head.weight->dims(head.classes_axis);
  if (now == training.classes) return;
  Random random(training.seed);
  const double limit = 1 / std::sqrt(static_cast<double>(
                               std::max<std::int64_t>(1, numel(*head.weight) / std::max<std::int64_t>(1, now))));
  redraw(*head.weight, head.classes_axis, training.classes, limit, random);
  if (head.bias) redraw(*head.bias, head.bias->dims_size() - 1, training.classes, limit, random);
  for (auto& output : *graph.mutable_output()) output.mutable_type()->mutable_tensor_type()->clear_shape();
}

}  // namespace neurim
