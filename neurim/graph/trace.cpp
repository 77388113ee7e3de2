#include "neurim/graph/trace.h"

#include <algorithm>
#include <atomic>

#include "neurim/base/error.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

thread_local Recorder* innermost = nullptr;

/// "net.conv2" of "net.conv2.weight".
std::string module_path(std::string_view name) {
  const auto dot = name.rfind('.');
  return std::string(dot == std::string_view::npos ? name : name.substr(0, dot));
}

}  // namespace

Recorder* Recorder::current() { return innermost; }

Untraced::Untraced() : outer_(innermost) { innermost = nullptr; }
Untraced::~Untraced() { innermost = outer_; }

int Recorder::read(const Tensor& tensor) {
  const Value* value = tensor.value();
  if (tensor.traced()) {
    require(value->trace == id, "trace: a value of ", value->trace < id ? "an ended or enclosing" : "another",
            " trace is used here; return it from its function, or compute it again");
    return value->id;
  }
  if (auto at = current_.find(value); at != current_.end()) return at->second;
  require(tensor.device() == graph.device, tensor.name(), tensor.name().empty() ? "trace: a tensor" : "", " is on ",
          tensor.device(), " but the plan runs on ", graph.device, "; place it there first");
  const int added = static_cast<int>(graph.values.size());
  graph.values.push_back({tensor.type(), -1, tensor, std::string(tensor.name())});
  current_[value] = added;
  return added;
}

Tensor Recorder::handle(int number) const {
  const Graph::Value& known = graph.values[number];
  auto value = std::make_shared<Value>();
  value->type = known.type;
  value->device = graph.device;
  value->name = known.name;
  value->trace = id;
  value->id = number;
  return Tensor(std::move(value));
}

Tensors Recorder::record(std::shared_ptr<const Op> op, std::vector<int> in, const Types& out) {
  Graph::Node node{std::move(op), std::move(in), {}, {}};
  for (int number : node.in) {
    const Graph::Value& value = graph.values[number];
    if (node.where.empty() && value.captured && !value.name.empty()) node.where = module_path(value.name);
  }
  Tensors results;
  for (const Type& type : out) {
    node.out.push_back(static_cast<int>(graph.values.size()));
    graph.values.push_back({type, static_cast<int>(graph.nodes.size()), {}, {}});
    results.push_back(handle(node.out.back()));
  }
  graph.nodes.push_back(std::move(node));
  return results;
}

void Recorder::assign(const Tensor& state, const Tensor& next) {
  require(!state.traced(), "assign: the target is a value of the trace; only tensors that existed before it are state");
  read(state);
  current_[state.value()] = read(next);
}

std::vector<int> count_readers(const Graph& graph) {
  std::vector<int> readers(graph.values.size());
  for (const Graph::Node& node : graph.nodes)
    for (const int value : node.in) ++readers[value];
  for (const int value : graph.outputs) ++readers[value];
  for (const Graph::Commit& commit : graph.commits) ++readers[commit.value];
  return readers;
}

Trace::Trace(const Options& options) : recorder_(std::make_unique<Recorder>()) {
  static std::atomic<std::uint64_t> traces{0};
  recorder_->id = ++traces;
  recorder_->graph.training = options.training;
  recorder_->graph.device = options.device;
  recorder_->random = options.random;
  recorder_->outer = innermost;
  recorder_->assumptions.emplace(&recorder_->unequal);
  innermost = recorder_.get();
}

Trace::~Trace() {
  if (recorder_) innermost = recorder_->outer;
}

Tensor Trace::input(const Type& type, std::string name) {
  Graph& graph = recorder_->graph;
  graph.inputs.push_back(static_cast<int>(graph.values.size()));
  graph.values.push_back({type, -1, {}, std::move(name)});
  return recorder_->handle(graph.inputs.back());
}

Graph Trace::finish(const Tensors& outputs) {
  NEURIM_ASSERT(innermost == recorder_.get());
  Recorder& recorder = *recorder_;
  if (recorder.random_ops > 0) {
    const std::int64_t one_step[2] = {0, 1};
    const Tensor step = Tensor::from({DType::i64, {2}}, one_step, recorder.graph.device);
    recorder.random.assign(apply1(make_op("add"), {recorder.random, step}));
  }
  for (const Tensor& output : outputs) recorder.graph.outputs.push_back(recorder.read(output));
  for (std::size_t i = 0; i < recorder.graph.values.size(); ++i) {
    const Tensor& state = recorder.graph.values[i].captured;
    if (!state) continue;
    const int now = recorder.read(state);
    if (now != static_cast<int>(i)) recorder.graph.commits.push_back({static_cast<int>(i), now});
  }
  innermost = recorder.outer;
  recorder.assumptions.reset();
  for (const auto& [texts, pair] : recorder.unequal) recorder.graph.unequal.push_back(pair);
  Graph graph = std::move(recorder.graph);
  recorder_.reset();
  return graph;
}

Tensors captured() {
  Tensors all;
  if (!innermost) return all;
  for (const Graph::Value& value : innermost->graph.values)
    if (value.captured) all.push_back(value.captured);
  return all;
}

bool tracing() { return innermost != nullptr; }
bool training() { return innermost && innermost->graph.training; }

namespace {
thread_local std::int64_t eager_key[2] = {0, 0};
}

void seed_random(std::uint64_t seed) { eager_key[0] = static_cast<std::int64_t>(seed), eager_key[1] = 0; }

RandomKey next_random_key() {
  if (innermost) {
    require(static_cast<bool>(innermost->random), "random: this trace has no random key; give Options::random");
    return {innermost->random, innermost->random_ops++};
  }
  RandomKey key{Tensor::from({DType::i64, {2}}, eager_key), 0};
  ++eager_key[1];
  return key;
}

std::int64_t Graph::multiply_adds(const Node& node) const {
  Types in;
  for (const int value : node.in) in.push_back(values[value].type);
  return node.op->multiply_adds(in);
}

}  // namespace neurim
