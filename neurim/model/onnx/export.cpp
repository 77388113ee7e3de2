#include "neurim/model/onnx/export.h"

#include <algorithm>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/writable.h"
#include "neurim/graph/trace.h"
#include "neurim/model/onnx/writer.h"

namespace neurim {

namespace {

constexpr std::string_view kDependsOnBatch =
    " depends on the batch size; compute it from the input by ops, or export with dynamic_batch = false";

/// The operations of the function, with those that ONNX has no form of in this opset said in other ops where
/// that is possible.
Graph traced(const std::function<Tensors(Tensors)>& function, const std::vector<OnnxInput>& inputs, std::int64_t batch,
             std::int64_t opset, Device device) {
  Trace trace({.device = device});
  Tensors in;
  for (const OnnxInput& input : inputs) {
    Type type = input.type;
    if (batch > 0) type.shape[0] = batch;
    in.push_back(trace.input(type, input.name));
  }
  Graph graph = trace.finish(function(in));
  require(graph.commits.empty(), "onnx: the function assigns to a tensor, which a file cannot say");
  const auto written = [&](const Op& op) { return op.onnx() && op.onnx().since <= opset; };
  for (bool again = true; std::exchange(again, false);)  // a decomposition may name ops that decompose in turn
    graph = rewrite(graph, [&](const Graph::Node& node, const Tensors& operands) -> Tensors {
      if (written(*node.op)) return {};
      Tensors parts = node.op->decompose(operands);
      again |= !parts.empty();
      return parts;
    });
  return graph;
}

bool same_data(const Tensor& a, const Tensor& b) {
  if (a.value() == b.value()) return true;
  if (static_cast<bool>(a) != static_cast<bool>(b) || a.type() != b.type()) return false;
  std::string left(bytes(a.type()), '\0'), right(left);
  a.read(left.data());
  b.read(right.data());
  return left == right;
}

/// Throws unless the graphs of two batch sizes have the same operations and constants.
void check_alike(const Graph& a, const Graph& b) {
  const auto same_node = [](const Graph::Node& x, const Graph::Node& y) {
    return x.op->name() == y.op->name() && x.in == y.in && x.out == y.out;
  };
  require(a.values.size() == b.values.size() && a.inputs == b.inputs && a.outputs == b.outputs &&
              std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node),
          "onnx: which operations run", kDependsOnBatch);
  for (std::size_t v = 0; v < a.values.size(); ++v)
    require(same_data(a.values[v].captured, b.values[v].captured), "onnx: a constant of type ", a.values[v].type,
            kDependsOnBatch);
}

/// Computes what follows from constants alone and does not depend on the batch size: `larger` is the trace with a
/// larger batch. But not what weights in bytes and repeated values are made of: a file of the result would be larger.
void fold_constants(Graph& graph, Graph& larger) {
  const auto constants = [](const Graph& g, const std::vector<int>& values, Tensors& out) {
    for (const int v : values) out.push_back(g.values[v].captured);
    return std::all_of(out.begin(), out.end(), [](const Tensor& tensor) { return static_cast<bool>(tensor); });
  };
  std::vector<bool> gone(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node &node = graph.nodes[n], &other = larger.nodes[n];
    Tensors in;
    if (!constants(graph, node.in, in) || attributes(*node.op) != attributes(*other.op) ||
        node.op->name() == "dequantize" || node.op->name() == "broadcast_to")
      continue;
    const Tensors out = neurim::apply(node.op, in);
    for (std::size_t i = 0; i < out.size(); ++i)
      for (Graph* each : {&graph, &larger}) {
        Graph::Value& value = each->values[node.out[i]];
        value.captured = out[i];
        value.name = text(node.where, node.where.empty() ? "" : "/", node.op->name());
      }
    gone[n] = true;
  }
  for (Graph* each : {&graph, &larger}) {
    std::size_t n = 0;
    std::erase_if(each->nodes, [&](const Graph::Node&) { return gone[n++]; });
  }
}

/// Writes the graph, of which `larger` is the trace with a larger batch.
class Export {
 public:
  Export(const Graph& graph, const Graph& larger, std::int64_t opset)
      : graph_(graph), larger_(larger), file_(opset), names_(graph.values.size()) {}

  void inputs() {
    for (const int v : graph_.inputs) {
      name(v) = value(v).name;
      file_.reserve(name(v));
      file_.input(name(v), value(v).type.dtype, sizes(v));
    }
  }

  /// Before the nodes, so that no other value takes a parameter's name or an output's.
  void constants(const std::vector<std::string>& outputs) {
    for (const std::string& output : outputs) file_.reserve(output);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Graph::Value& each = graph_.values[v];
      if (each.captured) names_[v] = file_.constant(each.captured, each.name.empty() ? "constant" : each.name);
    }
  }

  void nodes(const std::vector<std::string>& outputs) {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::vector<int>& results = graph_.nodes[n].out;
      const auto at = results.size() > 1 ? graph_.outputs.end()  // these take their names from the rule
                                         : std::find(graph_.outputs.begin(), graph_.outputs.end(), results[0]);
      node(n, at == graph_.outputs.end() ? std::string() : outputs[at - graph_.outputs.begin()]);
    }
  }

  void outputs(const std::vector<std::string>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const int v = graph_.outputs[i];
      if (name(v) != outputs[i]) {  // an input, a constant, or a value that is an output twice
        file_.node("Identity", {name(v)}, {}, "Identity");
        file_.rename_last(outputs[i]);
      }
      file_.output(outputs[i], value(v).type.dtype, sizes(v));
    }
  }

  OnnxExport finish(const fs::path& path, const OnnxExportOptions& options) {
    file_.drop_unread();
    file_.metadata(options.metadata);
    OnnxExport files{path, {}, {}};
    if (file_.size() > options.most_bytes) files.data = file_.take_data(files.data_path().filename().string());
    require(file_.size() <= kMostOnnxBytes, "onnx: ", path.string(), " would be of ", file_.size(),
            " bytes, but an ONNX file holds at most ", kMostOnnxBytes, "; export a smaller model");
    files.model = file_.bytes();
    return files;
  }

 private:
  const Graph::Value& value(int v) const { return graph_.values[v]; }
  std::string& name(int v) { return names_[v]; }
  OnnxSizes sizes(int v) const {
    const Shape &shape = value(v).type.shape, &other = larger_.values[v].type.shape;
    return onnx_sizes({shape.begin(), shape.end()}, {other.begin(), other.end()}, "onnx");
  }

  void node(std::size_t n, const std::string& output_name) {
    const Graph::Node& node = graph_.nodes[n];
    const Op &op = *node.op, &larger = *larger_.nodes[n].op;
    const std::string at = node.where.empty() ? "" : node.where + ": ";
    require(static_cast<bool>(op.onnx()), at, op.name(),
            ": ONNX has no form of it; export a function without it (losses, gradients and random numbers "
            "are for training)");
    require(op.onnx().reads_batch || attributes(op) == attributes(larger), at, op.name(), ": its attributes ",
            attributes(op), kDependsOnBatch);
    OnnxNode written{file_, larger, output_name, {}, {}, value(node.out[0]).type, sizes(node.out[0])};
    if (written.name.empty())
      written.name = file_.fresh(node.where + (node.where.empty() ? "" : "/") + std::string(op.name()));
    for (const int v : node.in) {
      written.in.push_back(name(v));
      written.types.push_back(value(v).type);
    }
    op.write_onnx(written);
    if (written.results.empty()) {
      file_.rename_last(written.name);
      written.results = {written.name};
    }
    NEURIM_ASSERT(written.results.size() == node.out.size());
    for (std::size_t i = 0; i < node.out.size(); ++i) name(node.out[i]) = written.results[i];
  }

  const Graph &graph_, &larger_;
  OnnxWriter file_;
  std::vector<std::string> names_;  // of the values in the file
};

}  // namespace

fs::path OnnxExport::data_path() const { return fs::path(path) += ".data"; }

std::vector<std::string> OnnxExport::names() const {
  std::vector<std::string> names{path.string()};
  if (!data.empty()) names.push_back(data_path().string());
  return names;
}

void OnnxExport::check_can_write() const {
  neurim::check_can_write(path);
  if (data.empty()) return;
  require(!writes_in_place(path), path.string(), ": the weights do not fit into an ONNX file and go beside it, where ",
          data_path().string(), " cannot be; give the name of a file");
  neurim::check_can_write(data_path());
}

void OnnxExport::write() const {
  if (data.empty()) return write_file(path, model);
  check_can_write();
  FileReplacement new_data(data_path(), data), new_model(path, model);
  if (is_there(data_path())) fs::remove(new_model.target());  // which may be of these data
  new_data.replace();
  new_model.replace();
}

OnnxExport onnx_of(const std::function<Tensors(Tensors)>& function, const std::vector<OnnxInput>& inputs,
                   const std::vector<std::string>& outputs, const fs::path& path, const OnnxExportOptions& options,
                   Device device) {
  const Untraced untraced;
  const auto [low, high] = kOnnxBatches;
  if (options.dynamic_batch)
    for (const OnnxInput& input : inputs)
      require(!input.type.shape.empty(), "onnx: the input '", input.name, "' is a scalar and has no batch axis");
  Graph graph = traced(function, inputs, options.dynamic_batch ? low : 0, options.opset, device);
  Graph larger = options.dynamic_batch ? traced(function, inputs, high, options.opset, device) : graph;
  check_alike(graph, larger);
  fold_constants(graph, larger);
  require(outputs.size() == graph.outputs.size(), "onnx: ", outputs.size(), " names for ", graph.outputs.size(),
          " outputs");
  Export file(graph, larger, options.opset);
  file.inputs();
  file.constants(outputs);
  file.nodes(outputs);
  file.outputs(outputs);
  return file.finish(path, options);
}

OnnxExport onnx_of(const Model& model, const fs::path& path, const OnnxExportOptions& options) {
  const Shape image = options.image.empty() ? Shape{model.in_chans, model.image_size, model.image_size} : options.image;
  require(image.rank() == 3, "onnx: the image is ", image, ", not (C,H,W)");
  const Parameters parameters = named_parameters(model);  // for the names too, where nothing has given them yet
  return onnx_of([&](const Tensors& in) -> Tensors { return {model(in[0])}; },
                 {{"input", {DType::f32, {1, image[0], image[1], image[2]}}}}, {"logits"}, path, options,
                 parameters.empty() ? Device{} : parameters[0].tensor.device());
}

void export_onnx(const std::function<Tensors(Tensors)>& function, const std::vector<OnnxInput>& inputs,
                 const std::vector<std::string>& outputs, const fs::path& path, const OnnxExportOptions& options,
                 Device device) {
  onnx_of(function, inputs, outputs, path, options, device).write();
}

void export_onnx(const Model& model, const fs::path& path, const OnnxExportOptions& options) {
  onnx_of(model, path, options).write();
}

}  // namespace neurim
