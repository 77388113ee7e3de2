#include "neurim/model/onnx/model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/model/onnx/operators/sizes.h"
#include "neurim/model/onnx/part.h"
#include "neurim/model/onnx/training.h"
#include "onnx/onnx-data.pb.h"

namespace neurim {

namespace {

constexpr std::size_t kMostNodes = 1'000'000, kMostExpanded = 10'000'000;
constexpr int kMostDepth = 64;  // of graphs and functions inside each other

using Opsets = std::map<std::string, std::int64_t, std::less<>>;

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

template <class Entries>
Opsets opsets_of(const Entries& entries) {
  Opsets all;
  for (const auto& entry : entries) all[domain_of(entry.domain())] = entry.version();
  return all;
}

std::string described(const onnx::NodeProto& node) {
  const std::string& name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return text(node.domain().empty() ? "" : text(node.domain(), '.'), node.op_type(), " '", name, '\'');
}

/// What is worked out once for a list of nodes: of a graph or of a function.
struct Body {
  std::unordered_map<std::string, OnnxValue> stored;  ///< initializers
  std::vector<std::vector<std::string>> dead;         ///< after each node: values that nobody reads any more
  std::unordered_map<const onnx::AttributeProto*, OnnxValue> tensors;  ///< attributes of its nodes
};

}  // namespace

/// A model as it was read.
struct OnnxProgram {
  onnx::ModelProto proto;
  fs::path folder;
  Opsets opsets;
  std::map<std::string, const onnx::FunctionProto*, std::less<>> functions;  ///< by "domain.name.overload"
  std::unordered_map<const void*, Body> bodies;                              ///< by GraphProto and FunctionProto
  std::vector<OnnxPort> inputs, outputs;
  std::map<std::string, std::string> metadata;
  std::vector<OnnxWeight> weights;  ///< of one for training
  std::size_t seen_nodes = 0;

  const onnx::FunctionProto* function_of(const onnx::NodeProto& node) const {
    const auto found = functions.find(text(domain_of(node.domain()), '.', node.op_type(), '.', node.overload()));
    return found == functions.end() ? nullptr : found->second;
  }
};

namespace {

/// The graphs in the attributes of a node.
std::vector<const onnx::GraphProto*> graphs_of(const onnx::NodeProto& node) {
  std::vector<const onnx::GraphProto*> all;
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) all.push_back(&attribute.g());
    for (const auto& graph : attribute.graphs()) all.push_back(&graph);
  }
  return all;
}

OnnxPort port_of(const onnx::ValueInfoProto& info) {
  OnnxPort port{.name = info.name()};
  const onnx::TypeProto* type = &info.type();
  if (type->has_optional_type()) port.kind = OnnxKind::optional, type = &type->optional_type().elem_type();
  if (type->has_sequence_type()) {
    if (port.kind == OnnxKind::tensor) port.kind = OnnxKind::sequence;
    type = &type->sequence_type().elem_type();
  }
  if (!type->has_tensor_type()) return port;
  port.element = static_cast<OnnxElement>(type->tensor_type().elem_type());
  if (!type->tensor_type().has_shape() || port.kind != OnnxKind::tensor) return port;
  Shape shape;
  for (const auto& dim : type->tensor_type().shape().dim()) {
    const std::string& own = dim.dim_param();
    const bool plain = !own.empty() && (std::isalpha(static_cast<unsigned char>(own[0])) || own[0] == '_') &&
                       std::all_of(own.begin(), own.end(), [](char c) {
                         return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
                       });
    if (dim.has_dim_value() && dim.dim_value() > 0)
      shape.push_back(dim.dim_value());
    else
      shape.push_back(Dim::symbol(plain ? own : "unknown." + std::to_string(shape.rank())));
  }
  port.shape = shape;
  return port;
}

/// Reads the graphs of a model: their tensors, the last readers of their values, and what is wrong with them.
class Reader {
 public:
  /// `training`: initializers may have no values yet.
  Reader(OnnxProgram& program, bool training) : program_(program), training_(training) {}

  void read() {
    for (const auto& function : program_.proto.functions())
      program_
          .functions[text(domain_of(function.domain()), '.', function.name(), '.', function.overload())] = &function;
    for (const auto& function : program_.proto.functions())
      nodes(function.node(), &function, opsets_of(function.opset_import()),
            {function.input().begin(), function.input().end()}, {function.output().begin(), function.output().end()},
            0);
    graph(program_.proto.graph(), program_.opsets, {}, 0);
    if (!unsupported_.empty()) fail_unsupported();
    if (expanded(program_.proto.graph().node()) > kMostExpanded)
      fail(Fault::data, "has more than ", kMostExpanded, " nodes when its functions are written out");
  }

 private:
  using Known = std::unordered_set<std::string>;

  [[noreturn]] void fail_unsupported() const {
    std::vector<std::string> lines;
    for (const auto& [name, where] : unsupported_) {
      std::vector<std::string> few(where.begin(), where.begin() + std::min<std::ptrdiff_t>(std::ssize(where), 4));
      lines.push_back(text(name, " (", where.size() == 1 ? "node " : text(where.size(), " nodes: "), join(few, ", "),
                           where.size() > 4 ? ", …" : "", ')'));
    }
    fail(Fault::data, "uses operators that are not supported: ", join(lines, "; "));
  }

  /// How many nodes run, those of functions once for each call. Throws Error(data) for a function that calls itself.
  template <class Nodes>
  std::size_t expanded(const Nodes& nodes) {
    std::size_t count = 0;
    for (const onnx::NodeProto& node : nodes) {
      ++count;
      for (const onnx::GraphProto* inner : graphs_of(node)) count += expanded(inner->node());
      if (const onnx::FunctionProto* function = program_.function_of(node)) {
        const auto [known, is_new] = expanded_.emplace(function, 0);  // 0 while it is counted
        if (is_new) known->second = expanded(function->node()) + 1;
        if (known->second == 0) fail(Fault::data, "has the function ", function->name(), ", which calls itself");
        count += expanded_.at(function);
      }
      count = std::min(count, kMostExpanded + 1);
    }
    return count;
  }

  void graph(const onnx::GraphProto& graph, const Opsets& opsets, Known known, int depth) {
    if (depth > kMostDepth) fail(Fault::data, "holds graphs in more than ", kMostDepth, " others");
    Body& body = program_.bodies[&graph];
    for (const auto& tensor : graph.initializer()) {
      if (!body.stored
               .emplace(tensor.name(),
                        stored(training_ ? value_or_absent(tensor, program_.folder) : value_of(tensor, program_.folder),
                               tensor.name()))
               .second)
        fail(Fault::data, "has two initializers of the name '", tensor.name(), '\'');
      known.insert(tensor.name());
    }
    for (const auto& tensor : graph.sparse_initializer()) {
      body.stored.emplace(tensor.values().name(), stored(value_of(tensor, program_.folder), tensor.values().name()));
      known.insert(tensor.values().name());
    }
    for (const auto& input : graph.input()) known.insert(input.name());
    std::vector<std::string> outputs;
    for (const auto& output : graph.output()) outputs.push_back(output.name());
    nodes(graph.node(), &graph, opsets, std::move(known), outputs, depth);
  }

  template <class Nodes>
  void nodes(const Nodes& nodes, const void* key, const Opsets& opsets, Known known,
             const std::vector<std::string>& outputs, int depth) {
    program_.seen_nodes += static_cast<std::size_t>(nodes.size());
    if (program_.seen_nodes > kMostNodes) fail(Fault::data, "has more than ", kMostNodes, " nodes");
    std::unordered_map<std::string, int> last;
    std::unordered_set<std::string> made;
    int number = 0;
    for (const onnx::NodeProto& node : nodes) {
      check(node, opsets, known);
      for (const std::string& in : node.input()) last[in] = number;
      for (const onnx::GraphProto* inner : graphs_of(node)) {
        graph(*inner, opsets, known, depth + 1);
        captured(*inner, [&](const std::string& name) { last[name] = number; });
      }
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_t())
          program_.bodies[key].tensors[&attribute] = stored(value_of(attribute.t(), program_.folder), "");
        if (attribute.has_sparse_tensor())
          program_.bodies[key].tensors[&attribute] = stored(value_of(attribute.sparse_tensor(), program_.folder), "");
      }
      for (const std::string& out : node.output()) {
        if (out.empty()) continue;
        if (!made.insert(out).second) fail(Fault::data, "makes the value '", out, "' twice, last in ", described(node));
        known.insert(out);
        last.emplace(out, number);
      }
      ++number;
    }
    for (const std::string& output : outputs) {
      if (!known.count(output)) fail(Fault::data, "has the output '", output, "', which no node makes");
      last.erase(output);
    }
    Body& body = program_.bodies[key];
    body.dead.resize(static_cast<std::size_t>(number));
    for (const auto& [name, node] : last)
      if (made.count(name)) body.dead[static_cast<std::size_t>(node)].push_back(name);
  }

  void check(const onnx::NodeProto& node, const Opsets& opsets, const Known& known) {
    for (const std::string& in : node.input())
      if (!in.empty() && !known.count(in))
        fail(Fault::data, described(node), " reads the value '", in, "', which no node before it makes");
    if (program_.function_of(node)) return;
    const std::string domain = domain_of(node.domain());
    const OnnxOperator* op = onnx_operators().find(domain, node.op_type());
    const auto version = opsets.find(domain);
    if (version == opsets.end())
      fail(Fault::data, described(node), " is of a domain whose version the file does not say");
    if (!op || op->since > version->second)
      unsupported_[text(domain.empty() ? "" : text(domain, '.'), node.op_type(),
                        op ? text(" of opset ", version->second) : "")]
          .push_back(node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name());
  }

  /// Calls visit for each name that a graph reads from outside of it, among others.
  template <class Visit>
  static void captured(const onnx::GraphProto& graph, const Visit& visit) {
    for (const auto& node : graph.node()) {
      for (const std::string& in : node.input()) visit(in);
      for (const onnx::GraphProto* inner : graphs_of(node)) captured(*inner, visit);
    }
    for (const auto& output : graph.output()) visit(output.name());
  }

  static OnnxValue stored(const OnnxValue& value, const std::string& name) {
    if (value.is_tensor()) {
      value.tensor().value()->constant = true;
      value.tensor().set_name(name);
    }
    return value;
  }

  OnnxProgram& program_;
  const bool training_;
  std::map<const onnx::FunctionProto*, std::size_t> expanded_;
  std::map<std::string, std::vector<std::string>> unsupported_;  // the names of the nodes of each
};

/// The values by name while a graph runs; a graph in it sees those around it.
struct Frame {
  std::unordered_map<std::string, OnnxValue> values;
  const Frame* outer = nullptr;
  const Body* body = nullptr;
  const Opsets* opsets = nullptr;
  /// The attributes of the node that called the function that runs; null in a graph of the model.
  const std::map<std::string, const onnx::AttributeProto*>* arguments = nullptr;
  const Body* caller = nullptr;  ///< has the tensors of these

  const OnnxValue& find(const std::string& name) const {
    static const OnnxValue nothing;
    if (name.empty()) return nothing;
    for (const Frame* frame = this; frame; frame = frame->outer) {
      if (const auto found = frame->values.find(name); found != frame->values.end()) return found->second;
      if (const auto found = frame->body->stored.find(name); found != frame->body->stored.end()) return found->second;
    }
    return nothing;
  }
};

OnnxValues run_graph(const OnnxProgram& program, const onnx::GraphProto& graph, const OnnxValues& in,
                     const Frame* outer, const Opsets& opsets, const std::vector<OnnxWeight>& weights = {});

/// The number whose nearest f32 stands in the file, with the fewest digits: 1e-5, and not 9.999999747378752e-06.
double as_written(float value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  double number = value;
  std::from_chars(digits.data(), end, number);
  return number;
}

class Call final : public OnnxCall {
 public:
  Call(const OnnxProgram& program, const onnx::NodeProto& node, const Frame& frame)
      : program_(program), node_(node), frame_(frame) {
    for (const std::string& name : node.input()) in_.push_back(&frame.find(name));
    const auto version = frame.opsets->find(domain_of(node.domain()));
    version_ = version == frame.opsets->end() ? 1 : version->second;
  }

  const std::string& op() const override { return node_.op_type(); }
  std::int64_t version() const override { return version_; }
  int inputs() const override { return static_cast<int>(in_.size()); }
  int outputs() const override { return node_.output_size(); }
  bool wants(int output) const override { return output < node_.output_size() && !node_.output(output).empty(); }
  const OnnxValue& in(int input) const override {
    static const OnnxValue nothing;
    return input < inputs() ? *in_[static_cast<std::size_t>(input)] : nothing;
  }

  bool has(std::string_view attribute) const override { return find(attribute) != nullptr; }
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::INT);
    return found ? found->i() : otherwise;
  }
  double number(std::string_view attribute, double otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::FLOAT);
    return found ? as_written(found->f()) : otherwise;
  }
  std::string word(std::string_view attribute, std::string otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::STRING);
    return found ? found->s() : otherwise;
  }
  std::vector<std::int64_t> integers(std::string_view attribute, std::vector<std::int64_t> otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::INTS);
    return found ? std::vector<std::int64_t>(found->ints().begin(), found->ints().end()) : otherwise;
  }
  std::vector<double> numbers(std::string_view attribute, std::vector<double> otherwise) const override {
    const auto* found = find(attribute, onnx::AttributeProto::FLOATS);
    if (!found) return otherwise;
    std::vector<double> all;
    for (const float value : found->floats()) all.push_back(as_written(value));
    return all;
  }
  std::vector<std::string> words(std::string_view attribute) const override {
    const auto* found = find(attribute, onnx::AttributeProto::STRINGS);
    return found ? std::vector<std::string>(found->strings().begin(), found->strings().end())
                 : std::vector<std::string>();
  }
  OnnxValue value(std::string_view attribute) const override {
    const auto* found = find(attribute);
    if (!found) return {};
    for (const Body* body : {frame_.body, frame_.caller})
      if (body)
        if (const auto tensor = body->tensors.find(found); tensor != body->tensors.end()) return tensor->second;
    fail(Fault::data, "the attribute '", attribute, "' is no tensor");
  }
  OnnxValues run(std::string_view attribute, const OnnxValues& in) const override {
    return run_graph(program_, graph(attribute), in, &frame_, *frame_.opsets);
  }
  int inputs_of(std::string_view attribute) const override { return graph(attribute).input_size(); }

 private:
  const onnx::GraphProto& graph(std::string_view attribute) const {
    const auto* found = find(attribute, onnx::AttributeProto::GRAPH);
    if (!found) fail(Fault::data, "the attribute '", attribute, "' is missing");
    return found->g();
  }

  /// An attribute; in a function what the attribute of the calling node says that it refers to.
  const onnx::AttributeProto* find(std::string_view name) const {
    for (const auto& attribute : node_.attribute()) {
      if (attribute.name() != name) continue;
      if (attribute.ref_attr_name().empty()) return &attribute;
      if (!frame_.arguments) return nullptr;
      const auto given = frame_.arguments->find(attribute.ref_attr_name());
      return given == frame_.arguments->end() ? nullptr : given->second;
    }
    return nullptr;
  }
  const onnx::AttributeProto* find(std::string_view name, onnx::AttributeProto::AttributeType type) const {
    const auto* found = find(name);
    if (found && found->type() != type && found->type() != onnx::AttributeProto::UNDEFINED)
      fail(Fault::data, "the attribute '", name, "' is of another kind");
    return found;
  }

  const OnnxProgram& program_;
  const onnx::NodeProto& node_;
  const Frame& frame_;
  std::vector<const OnnxValue*> in_;
  std::int64_t version_;
};

template <class Nodes>
void run_nodes(const OnnxProgram& program, const Nodes& nodes, Frame& frame);

OnnxValues run_function(const OnnxProgram& program, const onnx::FunctionProto& function, const onnx::NodeProto& node,
                        const Frame& around) {
  std::map<std::string, const onnx::AttributeProto*> arguments;
  for (const auto& attribute : function.attribute_proto()) arguments[attribute.name()] = &attribute;
  for (const auto& attribute : node.attribute()) {
    const onnx::AttributeProto* given = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (!around.arguments) continue;
      const auto found = around.arguments->find(attribute.ref_attr_name());
      if (found == around.arguments->end()) continue;
      given = found->second;
    }
    arguments[attribute.name()] = given;
  }
  const Opsets opsets = opsets_of(function.opset_import());
  Frame frame{.body = &program.bodies.at(&function), .opsets = &opsets, .arguments = &arguments, .caller = around.body};
  for (int i = 0; i < function.input_size(); ++i)
    frame.values[function.input(i)] = i < node.input_size() ? around.find(node.input(i)) : OnnxValue();
  run_nodes(program, function.node(), frame);
  OnnxValues out;
  for (const std::string& name : function.output()) out.push_back(frame.find(name));
  return out;
}

/// Whether the value is known in a trace and stays as it is.
bool is_constant(const OnnxValue& value) {
  if (value.is_sequence()) return std::all_of(value.sequence().begin(), value.sequence().end(), is_constant);
  if (is_sizes(value)) return false;
  return !value.is_tensor() || (!value.tensor().traced() && value.tensor().value()->constant);
}

void mark_constant(const OnnxValue& value) {
  if (value.is_tensor()) value.tensor().value()->constant = true;
  if (value.is_sequence())
    for (const OnnxValue& each : value.sequence()) mark_constant(each);
}

OnnxValues run_node(const OnnxProgram& program, const onnx::NodeProto& node, const Frame& frame) {
  if (const auto* function = program.function_of(node)) return run_function(program, *function, node, frame);
  const OnnxOperator& op = *onnx_operators().find(domain_of(node.domain()), node.op_type());
  const Call call(program, node, frame);
  if (std::optional<OnnxValues> sizes = onnx_of_sizes(op, call)) {
    for (const OnnxValue& value : *sizes) mark_constant(value);
    return *sizes;
  }
  // Products read the bytes of weights: plans see where they do.
  const bool weights = node.op_type() == "DequantizeLinear" && call.inputs() > 0 && call.in(0).is_tensor() &&
                       call.in(0).tensor().rank() > 1;
  bool constant = tracing() && !op.random && !weights && graphs_of(node).empty();
  for (int i = 0; constant && i < call.inputs(); ++i) constant = is_constant(call.in(i));
  if (!constant) return op.rule(call);
  const Untraced untraced;
  OnnxValues out = op.rule(call);
  for (const OnnxValue& value : out) mark_constant(value);
  return out;
}

template <class Nodes>
void run_nodes(const OnnxProgram& program, const Nodes& nodes, Frame& frame) {
  std::size_t number = 0;
  for (const onnx::NodeProto& node : nodes) {
    OnnxValues out = naming([&] { return described(node); }, [&] { return run_node(program, node, frame); });
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      require(i < std::ssize(out), described(node), ": has no output ", i);
      frame.values[node.output(i)] = std::move(out[static_cast<std::size_t>(i)]);
    }
    for (const std::string& name : frame.body->dead[number]) frame.values.erase(name);
    ++number;
  }
}

OnnxValues run_graph(const OnnxProgram& program, const onnx::GraphProto& graph, const OnnxValues& in,
                     const Frame* outer, const Opsets& opsets, const std::vector<OnnxWeight>& weights) {
  Frame frame{.outer = outer,
              .body = &program.bodies.at(&graph),
              .opsets = &opsets,
              .arguments = outer ? outer->arguments : nullptr,
              .caller = outer ? outer->caller : nullptr};
  for (const OnnxWeight& weight : weights) frame.values[weight.name] = weight.tensor;
  int next = 0;
  for (const auto& input : graph.input()) {
    if (!outer && frame.body->stored.count(input.name())) continue;
    require(next < std::ssize(in), "takes more than ", in.size(), " inputs");
    frame.values[input.name()] = in[static_cast<std::size_t>(next++)];
  }
  run_nodes(program, graph.node(), frame);
  OnnxValues out;
  for (const auto& output : graph.output()) out.push_back(frame.find(output.name()));
  return out;
}

void check_input(const OnnxPort& port, const OnnxValue& value) {
  const auto require_fit = [&](bool fits) {
    require(fits, "input '", port.name, "' is ", value, ", and the model takes ", port);
  };
  if (port.kind == OnnxKind::optional) return;
  require_fit(port.kind == OnnxKind::sequence ? value.is_sequence() : value.is_tensor() || value.is_strings());
  if (port.kind == OnnxKind::sequence || port.element == OnnxElement::none) return;
  require_fit(value.element() == port.element);
  if (!port.shape) return;
  require_fit(value.shape().rank() == port.shape->rank());
  for (int axis = 0; axis < port.shape->rank(); ++axis)
    require_fit((*port.shape)[axis].symbolic() || value.shape()[axis] == (*port.shape)[axis]);
}

/// Takes away what of the graph is no part of the model.
void keep_part(OnnxProgram& program, OnnxPart part) {
  const auto found = program.metadata.find(std::string(kOnnxPixels));
  if (part == OnnxPart::whole || found == program.metadata.end()) return;
  onnx::GraphProto& graph = *program.proto.mutable_graph();
  if (graph.input_size() == 1 && graph.input(0).name() == found->second)  // it is the network alone
    return void(program.metadata.erase(found));
  part == OnnxPart::network ? keep_from(graph, found->second) : keep_until(graph, found->second);
}

std::shared_ptr<OnnxProgram> parsed(std::string_view bytes, const fs::path& folder, const OnnxReading& reading) {
  const std::optional<OnnxTraining>& training = reading.training;
  auto program = std::make_shared<OnnxProgram>();
  onnx::ModelProto& proto = program->proto;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    fail(Fault::data, "is larger than the 2 GiB that an ONNX file may have");
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !proto.has_graph())
    fail(Fault::data, "is no ONNX model, or is damaged");
  program->folder = folder;
  program->opsets = opsets_of(proto.opset_import());
  if (program->opsets.empty()) program->opsets[""] = 1;  // IR versions before 3 do not say it
  for (const auto& entry : proto.metadata_props()) program->metadata[entry.key()] = entry.value();
  keep_part(*program, reading.part);
  std::vector<OnnxWeight> wanted;
  if (training) {
    replace_head(*proto.mutable_graph(), *training);
    wanted = weights_of(proto.graph());
  }
  Reader(*program, training.has_value()).read();
  for (OnnxWeight& weight : wanted) {
    weight.tensor = program->bodies[&proto.graph()].stored.at(weight.name).tensor();
    Value& value = *weight.tensor.value();
    value.constant = false, value.parameter = true, value.state = !weight.learnt;
  }
  program->weights = std::move(wanted);
  const Body& body = program->bodies.at(&proto.graph());
  for (const auto& input : proto.graph().input())
    if (!body.stored.count(input.name())) program->inputs.push_back(port_of(input));
  for (const auto& output : proto.graph().output()) program->outputs.push_back(port_of(output));
  const auto drop = [](onnx::GraphProto& graph) {  // the values are tensors now
    for (auto& tensor : *graph.mutable_initializer()) {
      tensor.clear_raw_data();
      tensor.clear_float_data();
      tensor.clear_double_data();
      tensor.clear_int32_data();
      tensor.clear_int64_data();
      tensor.clear_uint64_data();
      tensor.clear_string_data();
    }
  };
  drop(*proto.mutable_graph());
  return program;
}

}  // namespace

void append(std::string& out, const OnnxPort& port) {
  if (port.kind == OnnxKind::optional) out += "optional ";
  if (port.kind == OnnxKind::sequence) out += "a sequence of ";
  append(out, port.element);
  if (port.shape) append(out, *port.shape);
}

OnnxModel OnnxModel::open(const fs::path& path, const OnnxReading& reading) {
  return naming([&] { return path.string(); },
                [&] {
                  const MappedFile file(path);
                  return parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                               path.parent_path(), reading);
                });
}

OnnxModel OnnxModel::parse(std::string_view bytes, const fs::path& folder, const OnnxReading& reading) {
  OnnxModel model;
  try {
    model.program_ = parsed(bytes, folder, reading);
  } catch (const Error& error) {
    if (error.fault() == Fault::resource) throw;
    fail(Fault::data, error.what());
  }
  return model;
}

const std::vector<OnnxPort>& OnnxModel::inputs() const { return program_->inputs; }
const std::vector<OnnxPort>& OnnxModel::outputs() const { return program_->outputs; }
const std::map<std::string, std::string>& OnnxModel::metadata() const { return program_->metadata; }
std::map<std::string, std::int64_t> OnnxModel::operators() const {
  std::map<std::string, std::int64_t> counts;
  for (const auto& node : program_->proto.graph().node()) {
    const std::string domain = domain_of(node.domain());
    ++counts[domain.empty() ? node.op_type() : text(domain, '.', node.op_type())];
  }
  return counts;
}

std::int64_t OnnxModel::stored_numbers() const {
  std::int64_t count = 0;
  for (const auto& [name, value] : program_->bodies.at(&program_->proto.graph()).stored)
    if (value.is_tensor()) count += value.tensor().numel();
  return count;
}

std::int64_t OnnxModel::opset() const {
  const auto found = program_->opsets.find("");
  return found == program_->opsets.end() ? 0 : found->second;
}

OnnxValues OnnxModel::run(const OnnxValues& in, const std::vector<OnnxWeight>& weights) const {
  require(in.size() == inputs().size(), "takes ", inputs().size(), " inputs, got ", in.size());
  for (std::size_t i = 0; i < in.size(); ++i) check_input(inputs()[i], in[i]);
  return run_graph(*program_, program_->proto.graph(), in, nullptr, program_->opsets, weights);
}

OnnxValues OnnxModel::operator()(const OnnxValues& in) const { return run(in, {}); }

Tensors OnnxModel::operator()(const Tensors& in) const { return (*this)(in, {}); }

Tensors OnnxModel::operator()(const Tensors& in, const std::vector<OnnxWeight>& weights) const {
  Tensors out;
  for (const OnnxValue& value : run(OnnxValues(in.begin(), in.end()), weights)) out.push_back(value.tensor());
  return out;
}

const std::vector<OnnxWeight>& OnnxModel::weights() const { return program_->weights; }

std::string OnnxModel::graph_bytes() const {
  onnx::ModelProto proto = program_->proto;
  std::set<std::string> weights;
  for (const OnnxWeight& weight : program_->weights) weights.insert(weight.name);
  const Body& body = program_->bodies.at(&program_->proto.graph());
  for (auto& tensor : *proto.mutable_graph()->mutable_initializer()) {
    if (weights.count(tensor.name()))
      set_absent(tensor);
    else
      set_values(tensor, body.stored.at(tensor.name()));
  }
  return proto.SerializeAsString();
}

}  // namespace neurim
