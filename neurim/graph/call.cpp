// Graphs as functions: run op by op, or as a part of a trace.
#include <map>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

using Sizes = std::map<std::string, Dim, std::less<>>;

/// The name of a size that is a symbol alone.
std::optional<std::string> symbol_name(Dim size) {
  if (!size.symbolic()) return {};
  const std::vector<Dim::Term> terms = size.terms();
  const bool alone = terms.size() == 1 && terms[0].factor == 1 && terms[0].parts.size() == 1;
  if (!alone || Dim::floor_of(terms[0].parts[0])) return {};
  return std::string(terms[0].parts[0]);
}

/// What the symbols of the inputs stand for.
Sizes sizes_of(const Graph& graph, const Tensors& in) {
  Sizes sizes;
  require(in.size() == graph.inputs.size(), "function: takes ", graph.inputs.size(), " inputs, got ", in.size());
  const auto value = [&](std::size_t i) -> const Graph::Value& { return graph.values[graph.inputs[i]]; };
  const auto require_fit = [&](bool fits, std::size_t i) {
    require(fits, "function: input ", value(i).name.empty() ? text(i) : value(i).name, " is ", in[i].type(),
            ", and the function takes ", value(i).type);
  };
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Type& wanted = value(i).type;
    require_fit(in[i] && in[i].dtype() == wanted.dtype && in[i].rank() == wanted.shape.rank(), i);
    for (int axis = 0; axis < wanted.shape.rank(); ++axis) {
      const Dim size = wanted.shape[axis];
      const std::optional<std::string> symbol = symbol_name(size);
      if (!symbol) continue;  // a number, or follows from other symbols: compared once all are known
      const auto [known, added] = sizes.emplace(*symbol, in[i].size(axis));
      require(added || known->second == in[i].size(axis), "function: input ",
              value(i).name.empty() ? text(i) : value(i).name, " is ", in[i].type(), ", and the size ", size, " is ",
              known->second, " in an input before");
      require_fit(known->second.symbolic() || known->second >= 1, i);
    }
  }
  return sizes;
}

Dim::Symbols lookup(const Sizes& sizes) {
  return [&sizes](std::string_view name) {
    const auto known = sizes.find(name);
    return known == sizes.end() ? Dim::symbol(name) : known->second;
  };
}

/// Whether an attribute is of symbols.
class SymbolFinder final : public Fields {
 public:
  bool found = false;
  Fields& operator()(std::string_view, std::int64_t&) override { return *this; }
  Fields& operator()(std::string_view, double&) override { return *this; }
  Fields& operator()(std::string_view, bool&) override { return *this; }
  Fields& operator()(std::string_view, std::string&) override { return *this; }
  Fields& operator()(std::string_view, DType&) override { return *this; }
  Fields& operator()(std::string_view, std::vector<std::int64_t>&) override { return *this; }
  Fields& operator()(std::string_view, std::vector<double>&) override { return *this; }
  Fields& operator()(std::string_view, Dim& value) override {
    found |= value.symbolic();
    return *this;
  }
  Fields& operator()(std::string_view, std::vector<Dim>& values) override {
    for (const Dim value : values) found |= value.symbolic();
    return *this;
  }
};

Dim bound(Dim size, const Dim::Symbols& symbols) { return size.symbolic() ? Dim::parse(text(size), symbols) : size; }

/// The op with what the symbols in its attributes stand for.
std::shared_ptr<const Op> bound(const std::shared_ptr<const Op>& op, const Dim::Symbols& symbols) {
  SymbolFinder finder;
  fields(*op, finder);
  if (!finder.found && op->bodies().empty()) return op;
  std::shared_ptr<Op> out = make_op(op->name(), attributes(*op), symbols);
  out->set_bodies({op->bodies().begin(), op->bodies().end()});
  out->renew_symbols();
  return out;
}

/// Adds what symbols of a result stand for that follow from data.
void learn(Sizes& sizes, const Type& said, const Type& is) {
  for (int axis = 0; axis < said.shape.rank() && axis < is.shape.rank(); ++axis)
    if (const std::optional<std::string> symbol = symbol_name(said.shape[axis])) sizes.emplace(*symbol, is.shape[axis]);
}

/// Where ops run: the first of the inputs that is not in host memory says it.
Device device_of(const Tensors& in) {
  for (const Tensor& tensor : in)
    if (tensor.device() != Device{}) return tensor.device();
  return {};
}

}  // namespace

Tensors call(const Graph& graph, const Tensors& in, const std::function<void(int, const Tensor&)>& see) {
  Sizes sizes = sizes_of(graph, in);
  const Dim::Symbols symbols = lookup(sizes);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Type& wanted = graph.values[graph.inputs[i]].type;
    for (int axis = 0; axis < wanted.shape.rank(); ++axis)
      require(bound(wanted.shape[axis], symbols) == in[i].size(axis), "function: input ",
              graph.values[graph.inputs[i]].name, " is ", in[i].type(), ", and the function takes ", wanted);
  }
  for (const auto& [a, b] : graph.unequal)
    require(bound(a, symbols) != bound(b, symbols), "function: it was traced for sizes of which ", a, " is not ", b,
            ", and both are ", bound(a, symbols));

  Recorder* const recorder = Recorder::current();
  std::vector<int> readers = count_readers(graph);
  Tensors now(graph.values.size());
  const Device device = recorder ? recorder->graph.device : in.empty() ? graph.device : device_of(in);
  for (std::size_t v = 0; v < now.size(); ++v) {
    const Tensor& stored = graph.values[v].captured;
    const bool elsewhere = stored && stored.value()->constant && stored.device() != device;
    now[v] = elsewhere ? stored.to(device) : stored;
    if (elsewhere) now[v].value()->constant = true;
  }
  for (std::size_t i = 0; i < in.size(); ++i) now[graph.inputs[i]] = in[i];
  for (const Graph::Node& node : graph.nodes) {
    Tensors operands;
    for (const int value : node.in) operands.push_back(now[value]);
    const std::size_t before = recorder ? recorder->graph.nodes.size() : 0;
    const Tensors out = neurim::apply(bound(node.op, symbols), operands);
    if (recorder)
      for (std::size_t n = before; n < recorder->graph.nodes.size(); ++n) recorder->graph.nodes[n].where = node.where;
    for (std::size_t i = 0; i < out.size(); ++i) {
      now[node.out[i]] = out[i];
      if (see) see(node.out[i], out[i]);
      learn(sizes, graph.values[node.out[i]].type, out[i].type());
    }
    for (const int value : node.in)
      if (--readers[value] == 0 && !graph.values[value].captured) now[value] = {};
  }
  Tensors outputs;
  for (const int value : graph.outputs) outputs.push_back(now[value]);
  Tensors next;  // all before the first is assigned: one may be the old value of another
  for (const Graph::Commit& commit : graph.commits) {
    const Tensor& value = now[commit.value];
    next.push_back(recorder                              ? recorder->handle(recorder->read(value))
                   : graph.values[commit.value].captured ? value.clone()
                                                         : value);
  }
  for (std::size_t i = 0; i < next.size(); ++i) graph.values[graph.commits[i].state].captured.assign(next[i]);
  return outputs;
}

Graph bound(const Graph& graph, const Types& in) {
  Trace trace({.training = graph.training, .device = graph.device});
  Tensors inputs;
  for (std::size_t i = 0; i < in.size(); ++i)
    inputs.push_back(trace.input(in[i], i < graph.inputs.size() ? graph.values[graph.inputs[i]].name : ""));
  return trace.finish(call(graph, inputs));
}

}  // namespace neurim
