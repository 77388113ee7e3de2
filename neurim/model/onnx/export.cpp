#include "neurim/model/onnx/export.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/writable.h"
#include "neurim/compile/passes.h"
#include "neurim/graph/trace.h"
#include "neurim/model/onnx/model.h"
#include "neurim/model/onnx/writer.h"

namespace neurim {

namespace {

/// The operations of the function, with those that ONNX has no form of in this opset said in other ops where
/// that is possible.
Graph in_onnx_ops(Graph graph, std::int64_t opset) {
  require(graph.commits.empty(), "onnx: the function assigns to a tensor, which a file cannot say");
  const auto written = [&](const Op& op) { return op.onnx() && op.onnx().since <= opset; };
  for (bool again = true; std::exchange(again, false);)  // a decomposition may name ops that decompose in turn
    graph = rewrite(graph, [&](const Graph::Node& node, const Tensors& operands) -> Tensors {
      if (written(*node.op)) return {};
      Tensors parts = node.op->decompose(operands);
      again |= !parts.empty();
      return parts;
    });
  for (const auto& [a, b] : graph.unequal)
    fail(Fault::usage, "onnx: the function assumes that ", a, " is not ", b,
         ", which a file cannot say; compute it from the input by ops, or export for one size");
  return graph;
}

/// Computes what follows from constants alone and depends on no symbol. But not what weights in bytes and repeated
/// values are made of: a file of the result would be larger.
void fold_constants(Graph& graph) {
  const auto fixed = [&](int v) { return !graph.values[v].type.shape.symbolic(); };
  const auto gone = [&](const Graph::Node& node) {
    if (node.op->name() == "dequantize" || node.op->name() == "broadcast_to") return false;
    if (!std::all_of(node.out.begin(), node.out.end(), fixed)) return false;
    Tensors in;
    for (const int v : node.in) in.push_back(graph.values[v].captured);
    if (std::any_of(in.begin(), in.end(), [](const Tensor& tensor) { return !tensor; })) return false;
    const Tensors out = neurim::apply(node.op, in);
    for (std::size_t i = 0; i < out.size(); ++i) {
      Graph::Value& value = graph.values[node.out[i]];
      value.captured = out[i];
      value.name = node.op->name() == "cast" ? graph.values[node.in[0]].name
                                             : text(node.where, node.where.empty() ? "" : "/", node.op->name());
    }
    return true;
  };
  std::erase_if(graph.nodes, gone);
}

/// Writes a graph.
class Export {
 public:
  Export(const Graph& graph, const OnnxExportOptions& options)
      : graph_(graph), options_(options), file_(options.opset), names_(graph.values.size()) {}

  void inputs() {
    if (options_.frame) return framed_input(*options_.frame);
    for (const int v : graph_.inputs) {
      name(v) = value(v).name;
      input({name(v), value(v).type});
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
    if (options_.frame) return framed_output(*options_.frame);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const int v = graph_.outputs[i];
      if (name(v) != outputs[i]) {  // an input, a constant, or a value that is an output twice
        file_.node("Identity", {name(v)}, {}, "Identity");
        file_.rename_last(outputs[i]);
      }
      file_.output(outputs[i], value(v).type);
    }
  }

  OnnxExport finish(const fs::path& path) {
    file_.drop_unread();
    file_.metadata(options_.metadata);
    OnnxExport files{path, {}, {}};
    if (file_.size() > options_.most_bytes) files.data = file_.take_data(files.data_path().filename().string());
    require(file_.size() <= kMostOnnxBytes, "onnx: ", path.string(), " would be of ", file_.size(),
            " bytes, but an ONNX file holds at most ", kMostOnnxBytes, "; export a smaller model");
    files.model = file_.bytes();
    return files;
  }

 private:
  const Graph::Value& value(int v) const { return graph_.values[v]; }
  std::string& name(int v) { return names_[v]; }

  void input(const Function::Port& port) {
    file_.reserve(port.name);
    file_.input(port.name, port.type);
  }

  void framed_input(const OnnxFrame& frame) {
    NEURIM_ASSERT(graph_.inputs.size() == 1 && graph_.outputs.size() == 1);
    input(frame.input);
    file_.reserve(frame.output.name);
    const int v = graph_.inputs[0];
    name(v) = frame.before(file_, frame.input.name);
    file_.describe(name(v), value(v).type);
    file_.metadata({{std::string(kOnnxPixels), name(v)}});
  }

  void framed_output(const OnnxFrame& frame) {
    frame.after(file_, name(graph_.outputs[0]));
    file_.rename_last(frame.output.name);
    file_.output(frame.output.name, frame.output.type);
  }

  void node(std::size_t n, const std::string& output_name) {
    const Graph::Node& node = graph_.nodes[n];
    const Op& op = *node.op;
    const std::string at = node.where.empty() ? "" : node.where + ": ";
    require(static_cast<bool>(op.onnx()), at, op.name(),
            ": ONNX has no form of it; export a function without it (losses, gradients and random numbers "
            "are for training)");
    if (op.onnx().composed) check_opset(op, file_);  // others do where they name the operator
    OnnxNode written{file_, output_name, {}, {}, value(node.out[0]).type};
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

  const Graph& graph_;
  const OnnxExportOptions& options_;
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

bool needs_bf16_opset(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Graph::Node& node) {
    const std::string_view name = node.op->name();
    return (starts_with(name, "conv") || name.find("pool") != name.npos) && !node.in.empty() &&
           graph.values[node.in[0]].type.dtype == DType::bf16;
  });
}

OnnxExport onnx_of(const Function& function, const fs::path& path, const OnnxExportOptions& options) {
  const Untraced untraced;
  require(options.dtype == DType::f32 || options.dtype == DType::f16 || options.dtype == DType::bf16,
          "onnx: values are f32, f16 or bf16, not ", options.dtype);
  require(!(options.dtype == DType::bf16 || needs_bf16_opset(function.graph)) || options.opset >= kBf16Opset,
          "onnx: bf16 needs opset ", kBf16Opset, ", whose convolutions and poolings are the first to take it, not ",
          options.opset);
  Graph graph = in_onnx_ops(function.graph, options.opset);
  if (options.dtype != DType::f32) graph = computed_in(graph, options.dtype, std::array{DType::f32});
  fold_constants(graph);
  Export file(graph, options);
  file.inputs();
  file.constants(function.outputs);
  file.nodes(function.outputs);
  file.outputs(function.outputs);
  return file.finish(path);
}

OnnxExport onnx_of(const std::function<Tensors(Tensors)>& function, std::vector<Function::Port> inputs,
                   const std::vector<std::string>& outputs, const fs::path& path, const OnnxExportOptions& options,
                   Device device) {
  if (options.dynamic_batch)
    for (Function::Port& input : inputs) {
      require(!input.type.shape.empty(), "onnx: the input '", input.name, "' is a scalar and has no batch axis");
      input.type.shape[0] = Dim::symbol("batch");
    }
  return onnx_of(trace_function(function, inputs, outputs, {}, device), path, options);
}

OnnxExport onnx_of(const Model& model, const fs::path& path, const OnnxExportOptions& options) {
  const Shape image = options.image.empty() ? Shape{model.in_chans, model.image_size, model.image_size} : options.image;
  require(image.rank() == 3, "onnx: the image is ", image, ", not (C,H,W)");
  const Parameters parameters = named_parameters(model);  // for the names too, where nothing has given them yet
  return onnx_of([&](const Tensors& in) -> Tensors { return {model(in[0])}; },
                 {{"input", {DType::f32, {1, image[0], image[1], image[2]}}}}, {"logits"}, path, options,
                 parameters.empty() ? Device{} : parameters[0].tensor.device());
}

void export_onnx(const Function& function, const fs::path& path, const OnnxExportOptions& options) {
  onnx_of(function, path, options).write();
}

void export_onnx(const std::function<Tensors(Tensors)>& function, std::vector<Function::Port> inputs,
                 const std::vector<std::string>& outputs, const fs::path& path, const OnnxExportOptions& options,
                 Device device) {
  onnx_of(function, std::move(inputs), outputs, path, options, device).write();
}

void export_onnx(const Model& model, const fs::path& path, const OnnxExportOptions& options) {
  onnx_of(model, path, options).write();
}

}  // namespace neurim
