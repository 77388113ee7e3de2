// Measures inference in 8 bits: int8 MODEL FILE.onnx [batch=1] [imgsz=224] [threads=2]. A model of the zoo with drawn
// weights, whose convolutions and fully connected layers read bytes: weights are i8 with a scale for each output
// channel, activations u8 within the range that they have for a batch of drawn images. Writes it to FILE.onnx with
// ONNX's QuantizeLinear and DequantizeLinear, for its peers. Speaks the line protocol of peers/serve.py, so that
// benchmarks/compare lets it take turns with them.
#include <algorithm>
#include <cmath>

#include "benchmarks/program.h"
#include "neurim/cli/measure.h"
#include "neurim/compile/passes.h"
#include "neurim/nn/init.h"

namespace neurim {
namespace {

/// The results of a graph, node by node; `visit` gives those of a node for its inputs. Other values are kept until they
/// have been read.
Tensors results_of(const Graph& graph, const Tensors& in,
                   const std::function<Tensors(const Graph::Node&, const Tensors&)>& visit) {
  Tensors values(graph.values.size());
  std::vector<std::size_t> last_reader(values.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const int value : graph.nodes[n].in) last_reader[value] = n;
  for (const int value : graph.outputs) last_reader[value] = graph.nodes.size();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = graph.values[i].captured;
  for (std::size_t i = 0; i < in.size(); ++i) values[graph.inputs[i]] = in[i];
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node& node = graph.nodes[n];
    Tensors own;
    for (const int value : node.in) own.push_back(values[value]);
    const Tensors out = visit(node, own);
    for (std::size_t i = 0; i < out.size(); ++i) values[node.out[i]] = out[i];
    for (const int value : node.in)
      if (last_reader[value] == n) values[value] = {};
  }
  Tensors out;
  for (const int value : graph.outputs) out.push_back(values[value]);
  return out;
}

Tensor number(double value) { return Tensor::full({DType::f32, {}}, value); }

/// A graph whose products read bytes.
class Quantized {
 public:
  Quantized(Graph graph, const Tensor& images) : graph_(std::move(graph)) {
    ranges_.resize(graph_.values.size());
    ranges_[graph_.inputs[0]] = range_of(images);
    results_of(graph_, {images}, [this](const Graph::Node& node, const Tensors& in) {
      Tensors out = neurim::apply(node.op, in);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i].dtype() == DType::f32) ranges_[node.out[i]] = range_of(out[i]);
      return out;
    });
  }

  Tensors operator()(const Tensors& in) const {
    std::map<int, Tensor> restored;  // of the graph's values, through bytes
    const auto through = [&](int value, const Tensor& tensor) {
      Tensor& known = restored[value];
      if (!known) known = through_bytes(tensor, ranges_[value]);
      return known;
    };
    return results_of(graph_, in, [&](const Graph::Node& node, const Tensors& own) {
      Tensors read = own;
      if (is_product(node)) {
        read[0] = through(node.in[0], own[0]);
        const Tensor scales = scales_of(own[1]), bytes = [&] {
          const Untraced untraced;
          return quantize(own[1], scales, 0, DType::i8);
        }();
        read[1] = dequantize(bytes, scales);
      } else if (node.op->name() == "add" &&
                 own[0].shape() == own[1].shape()) {  // what the last product makes stays its sums
        const int other = product_of(node.in[1]) > product_of(node.in[0]) ? 0 : 1;
        read[other] = through(node.in[other], own[other]);
      }
      return neurim::apply(node.op, read);
    });
  }

 private:
  static bool is_product(const Graph::Node& node) { return node.op->name() == "conv2d" || node.op->name() == "linear"; }
  /// The number of the product that makes it, or -1.
  int product_of(int value) const {
    const int node = graph_.values[value].node;
    return node >= 0 && is_product(graph_.nodes[node]) ? node : -1;
  }

  struct Range {
    float least = 0, most = 0;
  };
  static Range range_of(const Tensor& tensor) {
    Range range;
    for (const float number : tensor.values<float>())
      range = {std::min(range.least, number), std::max(range.most, number)};
    return range;
  }

  static Tensor through_bytes(const Tensor& tensor, const Range& range) {
    const double scale = std::max(range.most - range.least, 1e-6f) / 255;
    const auto zero = static_cast<std::int64_t>(std::nearbyint(-range.least / scale));
    return dequantize(quantize(tensor, number(scale), zero, DType::u8), number(scale), zero);
  }

  /// The scales of a weight's output channels.
  static Tensor scales_of(const Tensor& weight) {
    Shape shape = weight.shape();
    for (int axis = 1; axis < shape.rank(); ++axis) shape[axis] = 1;
    std::vector<float> scales, numbers = weight.values<float>();
    const std::size_t row = numbers.size() / static_cast<std::size_t>(shape[0]);
    for (std::size_t i = 0; i < numbers.size(); i += row) {
      float most = 1e-6f;
      for (std::size_t k = i; k < i + row; ++k) most = std::max(most, std::abs(numbers[k]));
      scales.push_back(most / 127);
    }
    return Tensor::from(shape, scales);
  }

  Graph graph_;
  std::vector<Range> ranges_;
};

Graph frozen_graph(const Model& model, const Type& images) {
  Trace trace({});
  const Tensor in = trace.input(images, "input");
  const Graph traced = freeze(trace.finish({model(in)}));
  return fold(fold_batch_norm(fold(decompose(traced, {}))));
}

void main_of(const std::vector<std::string>& words) {
  require(words.size() > 1, "usage: int8 MODEL FILE.onnx [batch=1] [imgsz=224] [threads=2]");
  std::map<std::string, std::int64_t, std::less<>> options{{"batch", 1}, {"imgsz", 224}, {"threads", 2}};
  read_counts({words.begin() + 1, words.end()}, options);
  initialize();
  set_threads(static_cast<int>(options["threads"]));
  const Model model = create_model(words[0]);
  const Type images{DType::f32, {options["batch"], model.in_chans, options["imgsz"], options["imgsz"]}};
  const Tensor drawn = Tensor::empty(images);
  nn::fill(drawn, nn::normal(), 0, "images");
  const Quantized quantized(frozen_graph(model, images), drawn);
  const auto function = [&](const Tensors& in) { return quantized(in); };
  export_onnx(function, {{"input", images}}, {"logits"}, words[1], {.dynamic_batch = false});
  const Plan planned = plan(function, {images}, {.freeze = true});
  planned.inputs()[0].assign(drawn);
  cli::serve({{"case", words[0]}, {"peer", "neurim"}, {"version", version()}}, options["batch"],
             [&] { planned.run(planned.inputs(), planned.outputs()); });
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) { return neurim::run_program(argc, argv, neurim::main_of); }
